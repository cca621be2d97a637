# For OpenBench and for people who type make: builds the program and copies it to EXE.
#   make                  builds scorn (scorn.exe on Windows) in this folder
#   make EXE=NAME         under another name
#   make kernels          translates Scorn's kernels for NVIDIA's GPUs after a change of their source
EXE ?= scorn
ifeq ($(OS),Windows_NT)
  SUFFIX := .exe
endif
TARGET := $(or $(CARGO_TARGET_DIR),target)
# OpenBench gives the name with or without the ending.
NAME := $(patsubst %$(SUFFIX),%,$(EXE))$(SUFFIX)

.PHONY: all bench clean kernels
all:
	cargo build --release --locked
	cp "$(TARGET)/release/scorn$(SUFFIX)" "$(NAME)"

kernels:
	src/network/backend/ort/kernels/translate.sh

bench: all
	"$(TARGET)/release/scorn$(SUFFIX)" bench

clean:
	cargo clean
