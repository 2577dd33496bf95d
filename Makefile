# A thin front for tools/build (meson and ninja) and tests/run. `make help` lists the targets.
BUILD  ?= build
PREFIX ?= /usr/local
.DEFAULT_GOAL := all
.PHONY: static arm64 sbom dist coverage all campaign help demo quick test test-full check bench bench-check install deb wheel clean format

all: ## build build/plumb and libplumb
	@tools/setup --quiet build
	@tools/build $(BUILD)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: all ## one minute: what plumb does, on a small model
	@tools/demo

quick: ## after a change: build, unit and CLI tests, under a minute on two cores
	@tools/build $(BUILD) all unit
	@tests/run --quick unit cli

test: all ## every suite, some 20 minutes on two cores
	@tools/setup --quiet test
	@tools/fetch-models ci
	@tools/export-models ci
	@tests/run

test-full: all ## the same, with all that is slow
	@tools/setup --quiet test bench
	@tools/fetch-models full
	@tools/export-models full
	@if [ "$$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then tests/python/torch2 trixie; \
	else echo "test-full: torch 2 was not tested: it needs root and debootstrap" >&2; fi
	@tests/run --full
	@tests/campaign/run --quick alloc io disk kill clock storm corrupt

campaign: all ## faults done on purpose: memory, disk, kills, damage; the table goes to bench/campaign.md
	@tools/setup --quiet test campaign
	@tests/campaign/run --write bench/campaign.md

check: ## format, layers, rooms, headers, file sizes, warnings in gcc and clang, clang-tidy
	@tools/setup --quiet build test
	@tools/check

bench: all ## measure against peers and physical limits; tables go to bench/README.md, plots to bench/plots
	@tools/setup --quiet test bench
	@tools/fetch-models full
	@tools/export-models full
	@/usr/bin/python3 bench/run.py
	@/usr/bin/python3 bench/run.py --quick --write-ratios >build/bench-quick.txt

bench-check: all ## the quick bench against the committed ratios; what is more than 20 % worse is shown
	@tools/setup --quiet test bench
	@tools/fetch-models full
	@tools/export-models full
	@/usr/bin/python3 bench/run.py --quick --against

install: all ## program, library, header, plumb.pc, man pages, completion; PREFIX (/usr/local) and DESTDIR count
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD)

deb: all ## a Debian package, plumb_VERSION_ARCH.deb
	@tools/make-deb --build $(BUILD)

static: ## build-static/plumb: one file for any Linux of this architecture, without view, jit, ort and plugins (musl)
	@tools/setup --quiet static
	@CC=musl-gcc tools/build build-static -Dstatic=true plumb
	@strip -o build-static/plumb.stripped build-static/plumb && mv build-static/plumb.stripped build-static/plumb
	@ls -l build-static/plumb

arm64: ## cross build for ARM64 into build-arm64; `tests/run arm64` tests it in qemu
	@tools/setup --quiet build arm64
	@PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig tools/build build-arm64 --cross-file=tools/arm64.ini

wheel: all ## dist/plumb-VERSION-py3-none-linux_ARCH.whl: the Python package with library, guard and program
	@tools/make-wheel --build $(BUILD)

sbom: ## dist/plumb-VERSION.spdx.json: what plumb is made of
	@tools/make-sbom

dist: ## dist/plumb-VERSION.tar.gz and dist/SHA256SUMS, the same bytes from the same commit (docs/release.md)
	@tools/make-dist

coverage: all ## what of src/ the tests run, by folder: docs/coverage.md; the lines that nothing ran: build-cov/uncovered
	@tools/setup --quiet test
	@tools/coverage

format: ## rewrite the C files with clang-format 14
	@tools/check-format --fix

clean: ## remove what was built; .cache (downloads, lint results) stays
	rm -rf build build-gcc-werror build-asan build-fuzz build-arm64 build-static build-cov build-oss-fuzz
