# The container image: docker build -t REGISTRY/larder:0.1.0 . && docker push REGISTRY/larder:0.1.0
# `make image` builds the same files into build/image/larder.tar where there is no Docker.
FROM debian:12 AS build
WORKDIR /src
COPY .ci/packages.build /tmp/
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      $(sed '/^#/d' /tmp/packages.build)
COPY . .
RUN (.ci/deps.sh cuda || echo "going on without CUDA kernels") && \
    cmake --preset release -DLARDER_BUILD_TESTS=OFF && cmake --build --preset release && \
      .ci/image/rootfs.sh build/release /rootfs

FROM scratch
COPY --from=build /rootfs/ /
USER 65532:65532
LABEL org.opencontainers.image.title=larder org.opencontainers.image.licenses=Apache-2.0
