# The image of `make image`, for those who have a container engine: first `make image`, then `docker build -t weir .`
# What it adds is the layer of that image: /bin/weir, its links /bin/ratelimit, /bin/ratelimit_client and
# /bin/ratelimit_config_check, and its bill of materials in /usr/share/weir/sbom.cdx.json. BuildKit, the builder of
# Docker since 23, fills in TARGETARCH.
FROM scratch
ARG TARGETARCH
ADD dist/linux-${TARGETARCH}.tar /
ENV PATH=/bin
WORKDIR /
USER 65532:65532
EXPOSE 8080 8081 6070
ENTRYPOINT ["/bin/weir"]
CMD ["serve"]
