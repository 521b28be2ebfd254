# make              the programs, in build/release/
# make deps         what building and testing needs, by apt; only what lacks
# make check        unit tests, fuzz corpora, scenarios; nothing else needed
# make check-raid   the unit tests of one folder (any of $(DIRS))
# make demo         the promise, kept before your eyes, on files of yours
# make lint         layers, banned functions, lengths
# make check-sanitized, check-long, bench, fuzz, analyze     by hand
# make VARIANT=asan|tsan ...      another build tree, build/VARIANT/

VARIANT ?= release
PREFIX  ?= /usr/local
B       := build/$(VARIANT)
DIRS    := base raid proto store server client
ALL     := $(DIRS) tests/support tests/fuzz $(DIRS:%=tests/%)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wformat=2 \
        -Wundef -Wstrict-prototypes -Wmissing-prototypes -Werror
HARD := -fstack-protector-strong -fstack-clash-protection -fPIE
ifeq ($(shell uname -m),x86_64)
HARD += -fcf-protection
endif
MODE.release := -O2 -D_FORTIFY_SOURCE=2 $(HARD)
MODE.asan := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
             -fno-sanitize-recover=all
MODE.tsan := -O1 -fsanitize=thread
MODE.fuzz := -O1 -fsanitize=fuzzer-no-link,address
LINK.release := -pie -Wl,-z,relro,-z,now
FLAGS = -std=c11 -D_GNU_SOURCE -I. -g $(WARN) $(MODE.$(VARIANT)) $(CFLAGS)
LINK  = $(CC) $(MODE.$(VARIANT)) $(LINK.$(VARIANT)) $(LDFLAGS)
LIBS := -Wl,--as-needed -lssh -lcrypto -llz4 -lzstd -lrsync -lisal -llmdb \
        -ljansson -lblkid -lpthread -lm

# Which archives a folder's program links, the folder itself first.
lib.base   := base
lib.raid   := raid base
lib.proto  := proto base
lib.store  := store raid proto base
lib.server := server store raid proto base
lib.client := client proto base
libs = $(patsubst %,$B/%.a,$(lib.$1))
objs = $(patsubst %.c,$B/%.o,$(wildcard $1/*.c))

PROGRAMS := $(if $(wildcard server/main.c),$B/bkserver) \
            $(if $(wildcard client/main.c),$B/bkclient)
UNITS := $(foreach d,$(DIRS),$(if $(wildcard tests/$d/test_*.c),$d))
FUZZ  := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
# fuzz_client_x.c links what the client does, fuzz_x.c what the store does.
fuzzlib = $(call libs,$(or $(filter $(DIRS),$(firstword \
          $(subst _, ,$1))),store))

# What starts from nothing uses all processors, unless told otherwise.
J := $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# One line per step; `make V=1` shows the commands.
Q := $(if $(V),,@)

all: $(PROGRAMS)

$B/bkserver: $B/server/main.o $(call libs,server)
$B/bkclient: $B/client/main.o $(call libs,client)
$B/bkserver $B/bkclient:
	@echo "link $@"
	$Q$(LINK) -o $@ $^ $(LIBS)

define folder
$B/$1.a: $$(filter-out %/main.o,$$(call objs,$1))
$B/check-$1: $$(call objs,tests/$1) $B/tests/$1/suites.o $B/tests/runner.o \
    $B/support.a $$(call libs,$1)
	@echo "link $$@"
	$Q$$(LINK) -o $$@ $$^ -lcheck_pic -lrt -lsubunit $$(LIBS)
$B/tests/$1/suites.c: FORCE
	@tests/suites.sh $1 $$@
check-$1: $B/check-$1
	$B/check-$1
endef
$(foreach d,$(DIRS),$(eval $(call folder,$d)))
$B/support.a: $(call objs,tests/support)
$B/%.a:
	@mkdir -p $(@D) && rm -f $@.new
	$Qar rcs $@.new $^ && mv $@.new $@

define fuzz_rules
$B/replay-$1: $B/tests/fuzz/fuzz_$1.o $B/tests/fuzz/replay.o $B/support.a \
    $$(call fuzzlib,$1)
	@echo "link $$@"
	$Q$$(LINK) -o $$@ $$^ $$(LIBS)
$B/fuzz-$1: $B/tests/fuzz/fuzz_$1.o $B/support.a $$(call fuzzlib,$1)
	$$(LINK) -fsanitize=fuzzer -o $$@ $$^ $$(LIBS)
endef
$(foreach f,$(FUZZ),$(eval $(call fuzz_rules,$f)))

$B/%.o: %.c
	@mkdir -p $(@D)
	@echo "cc   $<"
	$Q$(CC) $(FLAGS) -MMD -MP -c -o $@ $<
$B/%.o: $B/%.c
	$Q$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

unit-programs: $(UNITS:%=$B/check-%)
fuzz-programs: $(FUZZ:%=$B/replay-%)

check: deps
	@$(MAKE) --no-print-directory $J all unit-programs fuzz-programs
	@tests/check.sh $B unit:"$(UNITS)" fuzz:"$(FUZZ)" scenarios:short
unit: unit-programs
	@tests/check.sh $B unit:"$(UNITS)"
check-fuzz: fuzz-programs
	@tests/check.sh $B fuzz:"$(FUZZ)"
check-scenarios: all
	@tests/check.sh $B scenarios:short
check-long: all unit-programs
	@BK_LONG=1 BK_TIMEOUT=10000 tests/check.sh $B unit:"$(UNITS)" \
	    scenarios:long
check-sanitized:
	$(MAKE) $J VARIANT=asan unit-programs fuzz-programs
	$(MAKE) VARIANT=asan unit check-fuzz
	$(MAKE) $J VARIANT=tsan unit-programs
	$(MAKE) VARIANT=tsan unit
	$(MAKE) $J unit-programs
	$(MAKE) check-valgrind
check-valgrind: unit-programs
	@tests/check.sh $B valgrind:"$(filter base proto,$(UNITS))"
demo: deps
	@$(MAKE) --no-print-directory $J all
	@BK_BIN=$(CURDIR)/$B tests/scenarios/demo.sh
bench: all
	@BK_BIN=$(CURDIR)/$B tests/bench/run.sh
FUZZ_SECONDS ?= 60
fuzz:
	$(MAKE) VARIANT=fuzz CC=clang $(FUZZ:%=build/fuzz/fuzz-%)
	@for f in $(FUZZ); do mkdir -p build/fuzz/corpus/$$f && \
	    build/fuzz/fuzz-$$f -max_total_time=$(FUZZ_SECONDS) \
	    build/fuzz/corpus/$$f $$(ls -d tests/fuzz/corpus/$$f) || exit 1; \
	done

deps:
	@tests/deps.sh
lint:
	@tests/lint.sh
analyze:
	cppcheck -q --std=c11 -D_GNU_SOURCE -I. --inline-suppr \
	    --enable=warning,portability,performance --error-exitcode=1 $(DIRS)
install: all
	for p in $(PROGRAMS); do \
	    install -D -m 755 $$p $(DESTDIR)$(PREFIX)/bin/$${p##*/}; done
	for m in $(wildcard docs/man/*.[1-9]); do install -D -m 644 $$m \
	    $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/}; done
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for u in $(wildcard server/*.service server/*.timer); do \
	    sed 's,/usr/\(local/\)\?bin/,$(PREFIX)/bin/,' $$u \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/$${u##*/}; done
clean:
	rm -rf build

FORCE:
.SECONDARY:
.PHONY: all check unit check-fuzz check-scenarios check-long \
    check-sanitized check-valgrind demo bench fuzz deps lint analyze install \
    clean unit-programs fuzz-programs FORCE $(DIRS:%=check-%)
-include $(wildcard $(ALL:%=$B/%/*.d) $B/tests/*.d)
