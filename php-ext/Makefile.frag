# The one thing that make has to make. Cargo knows what has changed, so it is always asked.
.PHONY: ratelimit-build
ratelimit-build:
	PHP=$(RATELIMIT_PHP) PHP_CONFIG=$(RATELIMIT_PHP_CONFIG) $(RATELIMIT_CARGO) build --release --locked \
		--manifest-path $(srcdir)/Cargo.toml --package ratelimit-php --target-dir $(builddir)/target

$(phplibdir)/ratelimit.so: ratelimit-build
	@mkdir -p $(phplibdir)
	cp $(builddir)/target/release/libratelimit_php.so $@

