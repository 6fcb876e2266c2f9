# The image of `make image`, for who has a container engine: first `make build`, then `docker build -t weir .`
FROM scratch
COPY bin/weir /bin/weir
COPY bin/weir /bin/ratelimit
ENV PATH=/bin
USER 65532:65532
EXPOSE 8080 8081 6070
ENTRYPOINT ["/bin/weir"]
CMD ["serve"]
