# weir's commands. `make` alone lists them; a fresh machine needs Go and make, `make test` fetches the rest.

.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -o pipefail -c
.PHONY: help build run tools test test-chart test-page test-apiserver soak lint fuzz bench image chart-docs clean

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 20s

# What holds Go files. The top-level names of this repository are fixed, so the list is.
GO_DIRS := backend cmd descriptors helm k8s server

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One flavour for everything: what is compiled for the tests is what make build, the image and vet use, too.
FLAVOUR := -trimpath -buildvcs=false
export GOFLAGS ?= $(FLAVOUR)
export CGO_ENABLED ?= 0

build: ## bin/weir, one static binary
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o bin/weir ./cmd/weir

# The weir under test, also under the incumbent's name, as the image has it. WEIR_RACE=-race for one with the detector.
bin/test/weir: FORCE
	@mkdir -p bin/test
	@CGO_ENABLED=$(if $(WEIR_RACE),1,$(CGO_ENABLED)) $(GO) build $(WEIR_RACE) -o bin/test/weir ./cmd/weir
	@ln -f bin/test/weir bin/test/ratelimit
.PHONY: FORCE
FORCE:

run: build ## serve the example configuration on this machine, counting in memory
	@echo
	@echo "Paste this in another terminal to see a limit being hit:"
	@echo
	@echo "    $(CURDIR)/bin/weir call --addr 127.0.0.1:$${GRPC_PORT:-8081} --domain shop --descriptor 'user=ann' --rate 2 --for 15s"
	@echo
	@echo "and look at its curve: http://127.0.0.1:$${DEBUG_PORT:-6070}/"
	@echo
	@# Nobody has to hear of its end, so Ctrl-C need not wait for the drain.
	@DRAIN_DELAY=0s exec bin/weir serve --config k8s/base/config

tools: ## what make test needs beside Go: a C compiler, Redis, a real Envoy, Prometheus and Chromium
	@GO=$(GO) .ci/tools

# Most of what the tests do is wait, for servers that start and for windows that end: so more of them run at once than
# there are processors. lint has vetted all of it. bbolt reads damaged pages as they come, which it recovers from; with
# checkptr, which -race turns on, that would end the process.
test: tools lint test-chart test-page ## what a change must pass: lint, all tests with the race detector, a real Envoy, Redis and Chromium, 1,000 runs of each fuzz target
	$(GO) test -race -gcflags='go.etcd.io/bbolt/...=-d=checkptr=0' -vet=off -shuffle=on -p 4 -parallel 8 -timeout 20m ./...
	@GO=$(GO) .ci/fuzz 1000x

soak: tools ## what takes hours: a million steps, thousands of kills, long fuzzing; its figures go to backend/backendtest/SOAK.md
	@GO=$(GO) .ci/soak

test-chart: tools ## the chart, the kustomizations and the image: rendered, read by their APIs, run beside a real Envoy, and watched by promtool
	cd helm/charttest && $(GO) test -count=1 ./...
	cd k8s/image && $(GO) test ./...

test-page: tools ## the page in a real Chromium, against a real weir with a year of history; screenshots go to bin/screenshots
	cd server/page/browser && $(GO) test -count=1 -parallel 3 ./...
	@echo "What was seen: bin/screenshots"

test-apiserver: ## a real kube-apiserver takes chart and kustomizations; built once, for ten minutes
	@GO=$(GO) .ci/apiserver
	cd helm/charttest && $(GO) test -count=1 -tags apiserver -timeout 20m ./apiserver

lint: ## gofmt, vet, staticcheck, known vulnerabilities (VULN=required: fail if they cannot be looked up)
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $(GO_DIRS)) && if [ -n "$$unformatted" ]; then \
		echo "These files are not as gofmt writes them; run gofmt -w on them:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@for module in helm/charttest k8s/image server/page/browser; do $(GO) -C $$module vet ./... && \
		(tool=$$($(GO) tool -n staticcheck) && cd $$module && $$tool ./...) || exit 1; done
	@GO=$(GO) VULN=$(VULN) .ci/vuln

fuzz: ## each fuzz target for FUZZTIME (20s)
	@GO=$(GO) .ci/fuzz $(FUZZTIME)

bench: ## server and Redis CPU per request beside a floor server, calls while 10,000 rules are read again, then the Go benchmarks
	$(GO) run ./cmd/weir/bench
	$(GO) test -count=1 -timeout 20m -v -run TenThousandRulesUnderLoad ./cmd/weir/e2e -reload-rounds 10 -reload-window 4s | grep -v '^=== '
	$(GO) test -run '^$$' -bench . -benchmem ./descriptors ./backend/... ./server/...

ARCHES ?= amd64 arm64

image: ## dist/weir-image.tar, an OCI archive for amd64 and arm64, and what the Dockerfile adds; needs no container engine
	@for arch in $(ARCHES); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags "-X main.version=$(VERSION)" \
			-o bin/linux-$$arch/weir ./cmd/weir || exit 1; done
	cd k8s/image && $(GO) run . -version $(VERSION) -bin ../../bin -out ../../dist/weir-image.tar -roots ../../dist $(ARCHES)

chart-docs: ## the chart's table of values, from values.yaml, and what its schema takes for a descriptor file, from weir schema
	cd helm/charttest && $(GO) run ./docs

clean: ## remove what make built and installed; counters in weir-data stay
	rm -rf bin dist .tools
