# __head__

# What pip takes for cuenv in the build: __said__, held by its hash.
ARG CUENV="__cuenv__"

FROM __run__ AS run
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
#[ running
ENV __name__="__value__"__more__
#]
WORKDIR /opt/cuenv
#[ pip
# The constraint keeps pip from a second torch over the image's.
RUN python -c 'import torch; print("torch==" + torch.__version__.partition("+")[0])' > constraints.txt \
    && printf '%s\n' __wanted__ > requirements.txt \
    && python -m pip install --no-cache-dir -c constraints.txt -r requirements.txt
#]
#[ wheel
COPY ["__wheel__", "/opt/cuenv/__wheel__"]
#]
ARG CUENV
RUN python -m venv /opt/cuenv/venv \
    && /opt/cuenv/venv/bin/python -m pip install --no-cache-dir "$CUENV" \
    && /opt/cuenv/venv/bin/cuenv check --prefix "$(python -c 'import sys; print(sys.prefix)')"__host__ \
    && useradd --create-home --uid 10001 --shell /bin/bash work
USER 10001
WORKDIR /home/work
CMD ["python"]
