/* A stand-in for libnvidia-ml.so.1, steered by the text file that FAKE_NVML names.
 *
 * Lines of that file: "init 18", "driver 535.129.03", "driver_error 3", "cuda 12020", "cuda_error 13", "count 2",
 * "count_error 999", "gpu <index> <capability>|<MiB>|<name>", "handle_error <index> 4", "name_error <index> 15",
 * "capability_error <index> 3", "memory_error <index> 3", "ecc <index> 1 0" (now, pending; without the line: not
 * supported), "ecc_error <index> 15", "mig <index> 1 1", "mig_error <index> 4", "mig_places <index> 7",
 * "pci <index> 2684" (the device id), "mig_instance <index * 10 + place> <MiB>|<name>", "mig_instance_error <index * 10 + place> 4". Every nvmlShutdown appends a byte to <file>.shutdown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;

static int read_line(const char *key, int index, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        char word[64];
        int number = -1, used = 0;
        line[strcspn(line, "\n")] = 0;
        if (index >= 0) {
            if (sscanf(line, "%63s %d %n", word, &number, &used) < 2 || number != index) continue;
        } else if (sscanf(line, "%63s %n", word, &used) < 1) continue;
        if (strcmp(word, key)) continue;
        snprintf(value, size, "%s", line + used);
        found = 1;
    }
    if (file) fclose(file);
    return found;
}

static int number(const char *key, int index, int otherwise) {
    char value[512];
    return read_line(key, index, value, sizeof value) ? atoi(value) : otherwise;
}

static int text(const char *key, char *out, unsigned length) {
    char value[512];
    if (!read_line(key, -1, value, sizeof value)) return 999;
    snprintf(out, length, "%s", value);
    return 0;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return number("init", -1, 0); }
int nvmlInit_v2(void) { return number("init", -1, 0); }
int nvmlInit(void) { return number("init", -1, 0); }

int nvmlShutdown(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.shutdown", getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "/dev/null");
    FILE *file = fopen(path, "a");
    if (file) { fputc('x', file); fclose(file); }
    return 0;
}

const char *nvmlErrorString(int code) { (void)code; return "words of the stand-in"; }

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    int error = number("driver_error", -1, 0);
    return error ? error : text("driver", out, length);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned length) { return text("driver", out, length); }

#ifndef WITHOUT_CUDA_LEVEL
int nvmlSystemGetCudaDriverVersion(int *out) {
    *out = number("cuda", -1, 0);
    return number("cuda_error", -1, 0);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
#endif

int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = (unsigned)number("count", -1, 0);
    return number("count_error", -1, 0);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    *out = (void *)(size_t)(index + 1);
    return number("handle_error", (int)index, 0);
}

enum { FIRST_INSTANCE = 1000 };

static int device(const char *error, void *handle, int *major, int *minor, unsigned long long *mib, char *name) {
    int index = (int)(size_t)handle - 1, code = number(error, index, 0);
    char value[512];
    if (code) return code;
    if ((size_t)handle >= FIRST_INSTANCE) {
        if (!read_line("mig_instance", (int)(size_t)handle - FIRST_INSTANCE, value, sizeof value)) return 999;
        return sscanf(value, "%llu|%199[^\n]", mib, name) == 2 ? 0 : 999;
    }
    if (!read_line("gpu", index, value, sizeof value)) return 999;
    return sscanf(value, "%d.%d|%llu|%199[^\n]", major, minor, mib, name) == 4 ? 0 : 999;
}

int nvmlDeviceGetName(void *handle, char *out, unsigned length) {
    int major, minor;
    unsigned long long mib;
    char name[200];
    int code = device("name_error", handle, &major, &minor, &mib, name);
    if (!code) snprintf(out, length, "%s", name);
    return code;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    unsigned long long mib;
    char name[200];
    return device("capability_error", handle, major, minor, &mib, name);
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } pci_t;

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *out) {
    char value[512];
    memset(out, 0, sizeof *out);
    if (!read_line("pci", (int)(size_t)handle - 1, value, sizeof value)) return 3;
    out->id = (unsigned)strtoul(value, NULL, 16) << 16 | 0x10de;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *out) {
    int major, minor;
    char name[200];
    unsigned long long mib = 0;
    int code = device("memory_error", handle, &major, &minor, &mib, name);
    out->total = mib << 20;
    out->used = 0;
    out->free = out->total;
    return code;
}

#ifndef WITHOUT_MODES
static int mode(const char *key, const char *error, void *handle, unsigned *now, unsigned *pending) {
    int index = (int)(size_t)handle - 1, code = number(error, index, 0);
    char value[512];
    if (code) return code;
    if (!read_line(key, index, value, sizeof value)) return 3;
    return sscanf(value, "%u %u", now, pending) == 2 ? 0 : 999;
}

int nvmlDeviceGetEccMode(void *handle, unsigned *now, unsigned *pending) {
    return mode("ecc", "ecc_error", handle, now, pending);
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending) {
    return mode("mig", "mig_error", handle, now, pending);
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *out) {
    *out = (unsigned)number("mig_places", (int)(size_t)handle - 1, 0);
    return 0;
}

/* The handle of an instance is that of no GPU: 1000 + index * 10 + place. */
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned place, void **out) {
    int which = ((int)(size_t)handle - 1) * 10 + (int)place, code = number("mig_instance_error", which, 0);
    char value[512];
    *out = (void *)(size_t)(FIRST_INSTANCE + which);
    return code ? code : read_line("mig_instance", which, value, sizeof value) ? 0 : 6;
}
#endif
