"""Classify one line of a log (exception, error, warning, weak failure), and translate its text to English."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from cuenv.core.regex import regex
from cuenv.diagnosis.log.translations import TRANSLATIONS

Grade = Literal["exception", "error", "line", "warning"]  # how severe a line is; ``line``: no word of it says

_DELETED = b"0123456789 .-#=>|%\t\xc2\xa0\xe2\x94\x95\x96" + bytes(range(0x82, 0x91))
_ENDS = bytes.maketrans(b"\r", b"\n")
_COLOURS = regex(rb"\x1b(?:\[[0-9;:?<=>]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_])")
_WARNING = regex(
    rb"[A-Z]\w{0,40}Warning\b|\bWARN(?:ING)?\b|\b[Ww]arning?(?: #[0-9-]+)? ?:|\[warn|"
    rb"A module that was compiled using NumPy|dependency resolver does not currently take|"
    rb"No CUDA runtime is found, using|unavailable_reason|we were unable to detect it|"
    rb"^(?:\([\w =.,-]{1,80}\))?[^A-Za-z]{0,40}(?:INFO|DEBUG|NOTE|Note)\b|\[(?:INFO|DEBUG)\]|- (?:INFO|DEBUG) -|"
    rb"\| (?:INFO|DEBUG) {1,8}\||"
    rb"CUDA initialization: |"
    rb"^\W{0,3}W[0-9]{4} |^W: |\[W[ 0-9]|(?:^|: )W (?:tensorflow|external)/"
)
_GOES_ON = regex(
    rb"\b[Ff]all(?:ing|s)?[ -]?back (?:to|on)\b(?! default algorithm)|"
    rb"\b[Ww]ill be (?:initialized|set|reset) to (?:the |their |its )?defaults?\b|"
    rb"\. Changing [\w ]{1,30} to |\b(?:[Uu]sing|[Uu]se) (?:the )?defaults?(?: \w{1,20})? instead\b|"
    rb"\(ignored\)|, (?:ignoring|skipping|continuing)\b|\bcan be (?:safely )?ignored|"
    rb"\b[Dd]isabl(?:ed|ing) (?:the )?\w[^\n]{0,60} (?:because|since|as) |"
    rb", but you have \S{1,60} \S{1,60} which is incompatible\b|"
    rb"thrown while requesting HEAD|\b[Ii]gnor(?:e|ing) (?:\w{1,20} )?(?:error|exception)s?\b"
)
"""Words after an error that say that the program continues without the failed part."""
_WITHOUT_GPU = regex(
    rb"(?i)\bfall(?:ing|s)?[ -]?back (?:to|on) (?:the )?cpu\b|\bdisabl(?:ed|ing) (?:the )?(?:cuda|gpu)"
)
"""A program that continues without the GPU: this counts as a failure."""
_EXCEPTION = regex(
    rb"(?:^|[\]:|>$)\xa0]\s{0,40}|^\W{0,12}\s|\bE\s{2,8}|[0-9]Z (?:std\w{3} F )?\s{0,40})(?:[A-Za-z_]\w{0,60}\.){0,8}"
    rb"(?P<name>[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Expired|Failure|NotFound|Impossible|Invalid)|Exception|"
    rb"Interrupt|StopIteration)"
    rb"(?:\x1b\[[0-9;]*m)?(?::|\s*$)"
)
_ERROR = regex(
    rb"\b[Ee]rror\b|\bERROR\b|Error:|\bFATAL\b|\b[Ff]atal\b|\bFAILED\b|\bAssertion\b|^Killed\b|terminate called|"
    rb"\[E[ 0-9]|: E (?:tensorflow|external)/|critical {1,8}libmamba|NCCL WARN|\bdied\b|panicked at"
)
FAILURE_MARKS = (
    "rror",
    "RROR",
    "Traceback",
    "xception",
    "atal",
    "FATAL",
    "illed",
    "ailed",
    "FAIL",
    "ailure",
    "critical",
    "CRITICAL",
    "ssertion",
    "No solution",
    "exit",
    "Exit",
    "return code",
    ": *** ",
    "core dumped",
    "Abort",
    "panicked",
    "egmentation",
    "Segfault",
    "SIG",
    "undefined symbol",
    "No module named",
    "conflict",
    "nsatisfiable",
    "invalid pointer",
    "malloc(): ",
    "double free",
    "access fault",
    "protection fault",
    "corrupted ",
    "FULL_ERROR",
    "KeyboardInterrupt",
    "StopIteration",
    "what():",
    "NotFound",
    "MatchSpec",
    "Expired",
    "Impossible",
    "_ASSERT",
    "now abort",
    "E: ",
    "[E:",
    "E1 1:1:1",
    "F1 1:1:1",
    ": F tensorflow/",
    ": F external/",
)
"""Every line that `fails` accepts contains one of these."""

_FAILURE = regex(
    rb"Traceback \(most recent call last|Error_\w{1,40}\b|"
    rb"(?:\b|_)[Ee]rror\b(?:\[[^\]]{0,40}\])?(?: #[0-9]+)?(?: in [\w./]{1,80})? ?:(?! ?[-+.0-9])|"
    rb"[a-z]Error\w{0,40}\b(?! ?=)|"
    rb"\b[A-Z]\w{0,60}(?:Error|Exception)\b|"
    rb"\b[A-Z]\w{2,60}(?:Failed|NotFound|Spec|Invalid):|\[E(?:\]|:\w)|"
    rb"^[EF][0-9]{4} [0-9:.]{8,16} |: F (?:tensorflow|external)/|"
    rb"\"(?:level|severity)\": ?\"(?:error|fatal|critical|panic)\"|"
    rb"(?:^|[\s|>:])E: [^\W\d]|(?:^|[\s|>:])E: [\x80-\xff]|\*\*\* \[|\bNo rule to make target|"
    rb"\bmake(?:\[[0-9]{1,2}\])?: \*\*\* (?![^\n]{0,80}\.\.\.\.)|"
    rb"\bERROR\b|\bFATAL\b|\bCRITICAL\b|\b[Ff]atal\b(?: error)?|\bError\b|"
    rb"\berror (?:at|in|while|loading|occurred)\b|"
    rb"\bError #[0-9]|[Cc]ore dumped|\bAbort(?:ed|ing)?\b|\bSIG(?:ABRT|SEGV|KILL|BUS|ILL|FPE|TERM)\b|"
    rb"[Ss]egmentation fault|Segfault|"
    rb"^\W*Killed\b|[:>|Z\]] ?Killed\b|: *[0-9]{1,8} Killed\b|\bFAIL(?:ED|URE)?\b|\b[Ff]ailed\b|\b[Ff]ailure\b|"
    rb"\b[Aa]ssertion\b|\b[A-Z]{2,20}_ASSERT(?:: |\(.{1,200}\) failed)|\bjob will now abort\b|"
    rb"\b(?:error|critical) {1,8}libmamba\b|\bNo solution found\b|"
    rb"\b[Ee]xit(?:ed)?[ _]?(?:with |on )?(?:[Cc]ode|status|signal) {0,3}[:=]? {0,12}(?:of |is )?-?[1-9]|\bOOMKilled\b|"
    rb"exitcode {0,3}: {0,3}-?[1-9]|"
    rb"return code {0,3}[:=]? {0,3}-?[1-9]|\bpanicked at\b|undefined symbol|No module named|"
    rb"(?:^|[\s|\]:>])Exception: |\bmalloc\(\): |"
    rb"\b[Ff]loating point exception|\b(?:access|protection) fault\b|"
    rb"free\(\): invalid|free invalid pointer|stack smashing|double free (?:or corruption|detected)|"
    rb"\bcorrupted (?:size|double-linked|unsorted)|"
    rb"^\W{0,12}what\(\): |HYDRA_FULL_ERROR=1 for|"
    rb"(?:^|[\]>:|Z] ?|^\W{1,12})(?:\^C)?(?:KeyboardInterrupt|StopIteration)(?::|\s|$)|"
    rb"[Cc]onflicting dependencies|\bconflicts? (?:with|is caused|between|for:)|[Uu]nsatisfiable"
)
_HARMLESS_WORDS = regex(
    rb"\b(?:[Ff]ailed: )?(?:0|[Nn]o|zero) (?:\w{1,20} )?(?:errors?|failed|failures?|exceptions?)\b|"
    rb"(?i:\b(?:errors?|failed|failures?)(?: summary)?[\"']? {0,2}[:=] {0,2}0(?: errors?)?)\b|"
    rb"\berrors ?= ?[\"'](?:ignore|replace|strict)|without (?:any )?errors?|\bNo exception\b|"
    rb"(?<!level\":)(?<!level\": )(?<!rity\":)(?<!rity\": )[\"'](?:\w{0,30}_)?error[\"']|"
    rb"[\"']\w{0,40}(?:[Ee]rror|[Ff]ail)\w{0,40}[\"'] ?[:=] ?(?:[Ff]alse|null|None|0|\[\]|\"\")|"
    rb"[\"'](?:[Ff]ail|[Ee]xit|[Ss]top|[Aa]bort|[Rr]aise|[Ss]kip)_?[Oo]n\w{1,30}[\"'] ?[:=] ?[Tt]rue|"
    rb"\bbusbw +error\b|"
    rb"\b[a-z]{2,12}Error_t\b|\b[Ee]rror[ _]rate|_error_rate|\w_error ?[:=]|[Ff]ailed \w{1,20} ?[:=] ?0\b|\bon_error\b|"
    rb"\b[Ff]ailed, (?:continuing|ignoring|skipping)\b|debugging hang or crash(?:es)?\b|"
    rb"an (?:error|exception) in (?:a |the )?future\b|NCCL_ASYNC_ERROR_HANDLING|[Ee]xit(?:ed)? (?:code|status):? 0\b"
)
"""Phrases with a word of failure that report no failure; the rest of their line may report one."""
_HARMLESS = regex(
    rb"\bRetrying \(Retry\(|\bReceived request \S{1,100}: prompt: |warning: Cuda API error detected|"
    rb"^\W*(?:warn(?:ings\.warn)?\(|File \"|raise |except |return (?!code)|if |from |import )|"
    rb"^\W{0,12}[0-9]* *(?:raise |except )|"
    rb"\bNCCL INFO\b|: I (?:tensorflow|external)/|\[NeMo [IW] |Unable to register cu\w+ factory|"
    rb"TF-TRT Warning: Could not|"
    rb"\bCannot use FA version [0-9] is not supported due to|"
    rb"^\s*(?:detected during|instantiation of )|"
    rb"^Error Message Summary:\s*$|\bframe #[0-9]{1,3}: |"
    rb"^debconf: (?!DbDriver)|\bmkinitramfs_|Could not collect|"
    rb"\bDetected non-\w{3,8} platform: |fatal: [Nn]ot a git repository|"
    rb"^nvcc warning {1,3}:|/sh: line [0-9]{1,3}: type: |\[WARNING\] {1,4}sparse_attn requires|"
    rb"warning: file \S{1,200}: remove failed: |"
    rb"Automatic GPU detection failed\. Building for|Solving environment: failed with|"
    rb"Performing Test \w{1,60} - Failed|"
    rb"\bcan be (?:safely )?ignored|become an? (?:fatal )?error in future|"
    rb"a possible cause of the failure\.|Skip loading parameter '|"
    rb"Unable to find image '[^']{1,200}' locally|GROMACS reminds you|"
    rb"detect the name of this notebook|Error in PredictCost\(\) for the op|\bINFO\b[^\n]{0,200}\b[Ff]ailed over"
)
_WEAK = regex(
    rb"\b(?:[Uu]nable to|UNABLE|[Cc]annot|[Cc]an.?t|[Cc]ould ?n.{0,3}t|[Cc]ould not|not found|NOT found|NOT FOUND|"
    rb"[Nn]o such|[Nn]o (?:viable|candidates|matching)|not supported|"
    rb"[Uu]nsupported|[Ii]ncompatible|[Mm]ismatch(?:es)?|refused|[Dd]enied|[Tt]imed out|[Cc]rash(?:ed|es)?|[Kk]illed|"
    rb"aborted|"
    rb"[Uu]ndefined|unreachable|not installed|"
    rb"[Nn]eeds? to (?:be )?install(?:ed)?|not available|unavailable|too old|does ?n.?t exist|does not exist|"
    rb"not compatible|is invalid|"
    rb"[Ee]xceed(?:ed|s) [\w ]{0,30}limit|"
    rb"[Uu]nrecognized (?:option|argument)s?|unknown (?:option|flag)|[Pp]lease (?:re)?compile with|"
    rb"[Ii]llegal|[Cc]orrupt(?:ed)?|[Ff]ails?|[Ff]ailing|[Ee]rrors?|OOM|[Oo]ut of memory|hangs|stuck|\w+BackOff|"
    rb"FailedScheduling|[Ii]nsufficient|NCCL WARN|already in use)\b"
)
_ENVELOPE = regex(
    rb"CalledProcessError|returned non-zero exit status|ChildFailedError|ProcessExitedException|"
    rb"ProcessRaisedException|"
    rb"subprocess-exited-with-error|did not run successfully|ninja: build stopped|Error compiling objects|"
    rb"\bmake(?:\[[0-9]+\])?: |"
    rb"metadata-generation-failed|Failed to build|[Ff]ailed building|Traceback \(most recent|SystemExit|"
    rb"legacy-install-failure|failed-wheel-build|"
    rb"Error building extension|FAILED: |compilation terminated|ld returned 1|Command .{0,400} (?:returned|failed)|"
    rb"exit ?code|"
    rb"[Ee]xit(?:ed)?(?: with)? (?:code|status)|return code|See above for output|originates from a subprocess|"
    rb"Failures:|FAILURE|[Bb]uild failed\b|"
    rb"Root Cause|error_file|TORCH_USE_CUDA_DSA|core dumped|Could not build wheels|errors occurred!|See also \"|"
    rb"\[end of output\]|Fatal Python error: Aborted|Engine (?:core|process)|closing signal|\bAborted\b|"
    rb"torch\.distributed\.elastic|CUDA kernel errors might|\bFAILED\s*$|"
    rb"The above exception|During handling|finished with status|command '.{0,200}' failed with exit|"
    rb" failed: \(Exit [1-9]|^Target //\S{1,200} failed to build|"
    rb"libmamba Could not solve|recipe for target|\.o' failed|didn't exit successfully|"
    rb"errored out with exit status|subprocess returned error exit|custom build command|"
    rb"failed with error code|status\.FAILED|\"FAILED\"|triggered an exception|"
    rb"Worker group FAILED|is not recoverable: exiting|Child returned status|"
    rb"executor failed running|Encountered error while trying to install package|"
    rb" has requirement .{1,120}, but you'll have |[Ff]ailed with:\s*$|HYDRA_FULL_ERROR=1 for|"
    rb"because of the following error \(look up|^\S{1,200}\.py:[0-9]{1,6}: \w{1,60}$|"
    rb"Error in sys\.excepthook:|EngineDeadError|BrokenPipeError|\bEOFError\s*$|"
    rb"ConnectionResetError: \[Errno 104\]|"
    rb"See (?:the )?(?:stack trace|root cause) \(?above|FAILED with no error file|"
    rb"srun: error: [\w.,\[\]-]{1,200}: tasks? [0-9,\[\]-]{1,80}: (?:Terminated|Exited)|failure (?:in|of) the peer\b|"
    rb"Unhandled error \(suppress with|[Ll]ast error:\s*$|usually means the child failed|"
    rb"-- Process [0-9]{1,5} terminated with the following error|output_handler failed|"
    rb"Error in inspecting model architecture|WorkerProc initialization failed|Intercepted XLA runtime error|"
    rb"Error executing job with overrides|"
    rb"[Mm]ain process exited, code=|Failed with result '|"
    rb"Setting up PyTorch plugin |pyxis: printing |complete standard error output:\s*$|failure detected by watchdog|"
    rb"Stack trace of the failed collective|"
    rb"NCCL operations have failed or timed out|To avoid (?:data )?inconsistency|watchdog thread terminated with"
)
_OF_GPU = regex(
    rb"(?i)cuda|gpu|nvidia|nccl|cudnn|cublas|devices?\b|driver|nvml|nvcc|torch|bf16|bfloat|fp16|kernel|triton|compil|"
    rb"import|symbol|shared object|librar|no module|flash|xformers|deepspeed|bitsandbytes|numpy|distributed|"
    rb"NameError: name '\w*(?:_c|_ext|cpp|ops)\b|(?:module '[\w.]{1,80}'|'NoneType' object) has no attribute"
)
_EXIT = regex(rb"\b[Ee]xit(?:ed)? ?(?:with )?(?:code|status) [1-9]")
_REPORT = regex(
    rb"Error: (?![^\n]{0,200}['\"`=])[^\n]{0,160}\b(?:failed|crashed|died|unsuccessful)"
    rb"(?: (?:after|with|on|in|at|for)\b[^\n]{0,60})?[:.!]{0,3}\s*$"
)
"""The message of an exception that only reports the failure of another program."""
_USERS_OWN = regex(
    rb"\b(?:KeyError|JSONDecodeError|ZeroDivisionError|SyntaxError|IndentationError|TabError|UnicodeDecodeError|"
    rb"StopIteration|RecursionError|FileNotFoundError|IsADirectoryError|NotADirectoryError|PermissionError|"
    rb"ParserError|"
    rb"ScannerError|HTTPError|ConnectionError|ReadTimeout|RepositoryNotFoundError|GatedRepoError|"
    rb"LocalEntryNotFoundError|"
    rb"ValidationError|KeyboardInterrupt|EOFError|UnpicklingError|DatasetNotFoundError|DataFilesNotFoundError)\b"
)
_SUPPORTING = rb"\b(?:platform|hardware|device|system|architecture|bf16|bfloat16|fp8|float16|dtype|python|torch)\b"
"""What must support a feature, where the installation or the GPU decides whether it does."""
_OF_INSTALLATION = regex(
    rb"(?i)install|version|upgrade|import|compil|availab|recogni[sz]|driver|cuda|(?<!per_)gpu|nvcc|kernel|"
    rb"capabilit|attribute(?!error)|no module|module ['`]|unexpected keyword|positional|"
    rb"support\w*[^\n]{0,80}" + _SUPPORTING + rb"|" + _SUPPORTING + rb"[^\n]{0,80}support"
)
_CUDA_FILE = regex(rb"\.so\b|nvcc|nvidia|cuda|ninja|gcc|g\+\+|torch_extensions")
_STATUS = regex(
    rb"\b(?:cudaError[A-Z]\w{2,50}|CUDA_ERROR_[A-Z]\w{2,50}|(?:CU(?:BLAS|SOLVER|SPARSE|RAND|DNN|TENSOR)_STATUS|CUFFT|"
    rb"NVRTC_ERROR|NVJITLINK_ERROR)_[A-Z]\w{2,50})\b"
)
_NUMBER = regex(
    rb"(?i)\bcuda(?:Success \(|(?: runtime| driver)? (?:error|failure)(?: code| with code)?[ :=(#\[]{1,4})"
    rb"([1-9][0-9]{0,2})\b(?![.%:] ?[0-9])"
)
_VERSIONS = regex(rb"\(from versions: [^()\n]*")
_WEB = regex(rb"%20|&nbsp;|&quot;|&#39;|&lt;|&gt;|&amp;")
_OF_WEB = {b"%20": b" ", b"&nbsp;": b" ", b"&quot;": b'"', b"&#39;": b"'", b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&"}
_LOGGER = regex(
    rb"^(?:\([\w =.,-]{1,80}\) ?)?(?:"
    rb"(?:ERROR|CRITICAL|FATAL) {1,4}[0-9][0-9-]{3,9} [0-9:.,]{8,15} \[[\w./-]{1,80}:[0-9]{1,5}\]|"
    rb"[EF][0-9]{4} [0-9:.]{8,16} +[0-9]{1,8} [\w./-]{1,160}:[0-9]{1,5}\](?: \[[\w/]{1,20}\])?|"
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.,]{8,15}Z? - (?:[\w.]{1,60} - )?(?:ERROR|CRITICAL) -)(?: |$)"
)
"""The prefix of a logger before each line of an error; its level applies to the whole message."""
_WRITER = regex(
    rb"^(?:(?:#[0-9]{1,4} )?[0-9]{1,5}\.[0-9]{1,4}(?: |$))?"
    rb"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [\w.-]{1,60} [\w./@-]{1,60}\[[0-9]{1,8}\]: )?"
    rb"(?:\([A-Za-z_]\w{0,40} pid=[0-9]{1,8}(?:, ip=[0-9.]{7,15})?\)(?: |$))?"
    rb"(?:warning: (?=[^\n]{1,300}: (?:fatal )?error: |nvcc fatal))?"
)
"""The prefixes of docker build, the system journal, vLLM, Ray and cargo before each line of a process."""
_CARGO = regex(rb"\bwarning: [\w-]{1,60}@[\w.+-]{1,30}: (?=[^\n]{1,300}: (?:fatal )?error: |nvcc fatal)")
"""The prefix of cargo before each line of a build script, whatever stands before it in turn."""
_BUILD_STEP = regex(rb"#[0-9]{1,4} [0-9]{1,5}\.[0-9]{1,4} ")
_CODE = regex(rb"^(?:\s|[\s^~=*#_-]*$|raise [A-Z])")
_RANK = regex(rb"^\W{0,3}(?:\[?(?:default|rank ?)([0-9]{1,5})\]?:|\[[0-9]+,([0-9]{1,5})\]<std)")
_BORDER = regex("^[\\s>]*(?:│|┃|║|\\|)\\s?|\\s*(?:│|┃|║|\\|)\\s*$".encode())
_BORDER_ROW = regex("^\\s*(?:╭|╰|┌|└|┏|┗|╔|╚|├|\\+)(?:─|━|═|-)".encode())


def shape_of(text: bytes) -> bytes:
    """Return a text without numbers, spaces and bars: similar lines have the same shape."""
    return text.translate(_ENDS, _DELETED)


def with_line_breaks(text: bytes) -> bytes:
    """Return a text in which line breaks replace carriage returns."""
    return text.translate(_ENDS) if b"\r" in text else text


def without_colours(text: bytes) -> bytes:
    """Return a text without colour codes."""
    return _COLOURS.sub(b"", text) if b"\x1b" in text else text


def in_build_step(line: bytes) -> bool:
    """Return whether docker build wrote a line: with the number and the time of its step."""
    return line[:1] == b"#" and _BUILD_STEP.match(line) is not None


def clean_line(line: bytes) -> bytes:
    """Return a line without colours, log prefixes and web escapes, and with plain spaces."""
    line = _WRITER.sub(b"", without_colours(line))
    if b"warning: " in line:
        line = _CARGO.sub(b"", line, count=1)
    if b"%20" in line or b"&" in line:
        line = _WEB.sub(lambda found: _OF_WEB[found[0]], line)
    if b"(from versions: " in line:  # what pip might have installed, which is of every kind
        line = _VERSIONS.sub(b"(from versions: ...", line)
    if b"\xc2\xa0" in line:
        line = line.replace(b"\xc2\xa0", b" ")
    if b"\xef\xbc\x9a" in line:  # a colon as wide as a Chinese character
        line = line.replace(b"\xef\xbc\x9a", b": ").replace(b":  ", b": ")
    return line


def to_english(line: bytes) -> bytes:
    """Return a line with the messages of the C library, gcc, ld, apt and shells in English."""
    if line.isascii() and not any(mark in line for mark in _ascii_marks()):
        return line
    pattern, meanings, around = _translations()
    said = pattern.sub(lambda found: meanings[found[0]], _COLON_APART.sub(b":", line))
    for mark, frame, meant in around:
        if mark in said:
            said = frame.sub(meant, said)
    return said


_COLON_APART = regex(rb"(?<=\S) :(?= |$)")
"""French and some Chinese texts have a space before a colon."""
_NAME = rb"([\w.+:/-]{1,80})"


@lru_cache(maxsize=1)
def _translations() -> tuple[re.Pattern[bytes], dict[bytes, bytes], tuple[tuple[bytes, re.Pattern[bytes], bytes], ...]]:
    """Return the pattern of the messages, what each means, and the messages around a name: mark, pattern, meaning."""
    pairs = [(text.encode(), meant.encode()) for meant, texts in TRANSLATIONS.items() for text in texts]
    meanings = {text: meant for text, meant in pairs if b"%s" not in text}
    around = tuple(
        (
            max(text.split(b"%s"), key=len),
            re.compile(_NAME.join(map(re.escape, text.split(b"%s")))),
            meant.replace(b"%s", b"\\1"),
        )
        for text, meant in sorted(pairs, key=lambda pair: -len(pair[0]))
        if b"%s" in text
    )
    return re.compile(b"|".join(map(re.escape, sorted(meanings, key=len, reverse=True)))), meanings, around


@lru_cache(maxsize=1)
def foreign_marks() -> tuple[bytes, ...]:
    """Return the messages in other languages, which mark a line for translation."""
    _, meanings, around = _translations()
    return (*meanings, *(mark for mark, _, _ in around))


@lru_cache(maxsize=1)
def _ascii_marks() -> tuple[bytes, ...]:
    return tuple(mark for mark in foreign_marks() if mark.isascii())


_LAST_TRY = b"Retrying (Retry(total=0,"  # pip warns before each try; after the last one the download has failed
_RAISES = regex(rb"^[\W\d]{0,20}raise [A-Za-z_]")
_RAISES_ERROR = regex(rb"^[\W\d]{4,20}raise [A-Za-z_][\w.]{0,60}(?:Error|Exception)\b")


def grade_of(line: bytes, at: int = 0) -> Grade:
    """Return the grade of a line at a position; a ``raise`` statement is not an error yet."""
    if _LAST_TRY in line:
        return "error"
    if _RAISES.search(line):
        return "line"
    head = line[max(0, at - 300) : at + 60]
    if _GOES_ON.search(line):
        return "warning"
    if _WARNING.search(head) and not (b"NCCL WARN" in line or b" error: #error" in head or _EXIT.search(line)):
        return "warning"
    if _EXCEPTION.search(line[max(0, at - 300) : at + 120]):
        return "exception"
    return "error" if any(words.search(line) for words in (_ERROR, _FAILURE, _WEAK)) else "line"


def is_exception(line: bytes) -> bool:
    """Return whether a line begins with a Python exception."""
    return _EXCEPTION.match(line) is not None


def raises(line: bytes) -> bool:
    """Return whether a traceback line raises an error; a log that ends there lacks the message."""
    return bool(_RAISES_ERROR.search(line))


def message_of(line: bytes) -> bytes:
    """Return the message of an error line after the prefix of its logger; empty for a frame or a line of code."""
    head = _LOGGER.search(line)
    if head is None:
        return line
    message = line[head.end() :]
    return b"" if _CODE.search(message) else b"ERROR " + message


def statuses_in(line: bytes) -> tuple[bytes, ...]:
    """Return the status names of CUDA libraries in a line, and the numbers after *CUDA error*."""
    return () if _HARMLESS.search(line) else (*_STATUS.findall(line), *_NUMBER.findall(line))


def fails(line: bytes) -> bool:
    """Return whether a line reports a failure."""
    return _says(_FAILURE, line)


def failure_in(line: bytes) -> int:
    """Return the position of the first word of failure in a line."""
    found = _FAILURE.search(line)
    return found.start() if found else 0


def fails_weakly(line: bytes) -> bool:
    """Return whether a line may report a failure; such lines count only at the end of a log."""
    return _says(_WEAK, line) and (not _GOES_ON.search(line) or bool(_WITHOUT_GPU.search(line)))


def _says(words: re.Pattern[bytes], line: bytes) -> bool:
    """Return whether a line contains one of the words outside of harmless lines and phrases."""
    if not words.search(line) or _HARMLESS.search(line):
        return False
    return not _HARMLESS_WORDS.search(line) or bool(words.search(_HARMLESS_WORDS.sub(b" ", line)))


def without_echo(line: bytes) -> bytes:
    """Return a line without what did not happen: the texts of ``echo``, a comment, an error that you may get."""
    return _UNSAID.sub(b" ", line) if b" && " in line or b" || " in line or b"f you " in line else line


_UNSAID = regex(
    rb"\becho (?:-[en]{1,2} )?(?:\"[^\"]{0,300}\"|'[^']{0,300}')|(?<= )# [A-Z][^\n]{0,300}$|"
    rb"\b[Ii]f you (?:get|see|encounter|receive|run into|experience) [^\n,]{1,200}(?=,)"
)


def lacks_cause(line: bytes) -> bool:
    """Return whether a line reports a failure without its cause."""
    return bool(_ENVELOPE.search(line))


def is_report(line: bytes) -> bool:
    """Return whether an exception only reports the failure of another program, whose message is above."""
    return bool(_REPORT.search(line))


def is_gpu_related(line: bytes) -> bool:
    """Return whether a failure may concern GPUs, torch or installed packages, so that a warning can explain it."""
    return bool(_OF_GPU.search(line)) and not _USERS_OWN.search(line)


def is_user_error(line: bytes) -> bool:
    """Return whether an exception comes from the user's data or program, not from an installed package."""
    return bool(_USERS_OWN.search(line)) and not _CUDA_FILE.search(line)


def is_installation_check(line: bytes) -> bool:
    """Return whether a failed check may concern an installed package or the GPU."""
    return bool(_OF_INSTALLATION.search(line))


def rank_of(line: bytes) -> str:
    """Return the rank in the prefix of a line; empty without a prefix."""
    found = _RANK.search(line)
    return (found[1] or found[2]).decode() if found else ""


def without_rank(line: bytes) -> bytes:
    """Return a line without the prefix of its rank."""
    found = _RANK.search(line)
    return line[found.end() :].removeprefix(b" ") if found else line


def without_border(line: bytes) -> bytes | None:
    """Return a line without the borders of a box; ``None`` for a horizontal border."""
    if _BORDER_ROW.search(line):
        return None
    return _BORDER.sub(b"", line)
