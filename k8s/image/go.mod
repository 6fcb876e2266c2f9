module github.com/weirproxy/weir/k8s/image

go 1.26.7

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/go-containerregistry v0.22.1
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/weirproxy/weir v0.0.0-00010101000000-000000000000
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/weirproxy/weir => ../..
