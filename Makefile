# Short names for what people do here. `make help` lists them.

.PHONY: help demo test bench soak fuzz lint vectors header

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Serve a page to try the limiter on, http://localhost:8080
	@scripts/demo

test: ## Run every test in every language
	@scripts/test

bench: ## Measure beside other libraries, as ratios
	@scripts/bench

soak: ## Run the long random and fault tests
	@scripts/soak

fuzz: ## Feed made-up DSNs, policies and replies to their readers
	@scripts/fuzz 60

lint: ## Check formatting, lints and licences
	@scripts/lint

vectors: ## Write the shared test vectors anew
	@python3 tests/vectors/oracle.py

header: ## Write include/ratelimit.h anew
	@UPDATE_HEADER=1 cargo test --quiet -p ratelimit-c
