// The header in C++: handles in unique_ptr, a decision by value.
#include <ratelimit.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

struct Free {
  void operator()(rl_store *store) const { rl_store_free(store); }
  void operator()(rl_policy *policy) const { rl_policy_free(policy); }
  void operator()(rl_limiter *limiter) const { rl_limiter_free(limiter); }
  void operator()(rl_lock *lock) const { rl_lock_free(lock); }
};

static void must(rl_status status) {
  if (status != RL_OK) {
    std::fprintf(stderr, "%s\n", rl_last_error());
    std::exit(EXIT_FAILURE);
  }
}

int main() {
  rl_store *opened = nullptr;
  must(rl_store_open("memory:", &opened));
  std::unique_ptr<rl_store, Free> store{opened};

  rl_policy *made = nullptr;
  must(rl_policy_token_bucket(2, 1, 60, true, &made));
  std::unique_ptr<rl_policy, Free> policy{made};

  rl_limiter_options options{};
  options.struct_size = sizeof options;
  options.on_error = RL_ON_ERROR_OPEN;
  const rl_policy *policies[] = {policy.get()};
  rl_limiter *bound = nullptr;
  must(rl_limiter_new(policies, 1, store.get(), &options, &bound));
  std::unique_ptr<rl_limiter, Free> limiter{bound};

  const std::string_view key = "caller";
  rl_decision decision{};
  for (int call = 0; call < 3; call++) {
    must(rl_allow(limiter.get(), reinterpret_cast<const std::uint8_t *>(key.data()), key.size(), 1, &decision));
    if (decision.allowed != (call < 2) || decision.source != RL_SOURCE_STORE) {
      return EXIT_FAILURE;
    }
  }
  rl_lock *locks = nullptr;
  must(rl_lock_new(store.get(), &locks));
  std::unique_ptr<rl_lock, Free> lock{locks};
  char holder[RL_HOLDER_LEN];
  for (bool expected : {true, false}) {
    bool acquired = !expected;
    must(rl_lock_acquire(lock.get(), reinterpret_cast<const std::uint8_t *>(key.data()), key.size(), 30, 0, holder, &acquired));
    if (acquired != expected || std::string_view{holder}.size() != (expected ? RL_HOLDER_LEN - 1 : 0)) {
      return EXIT_FAILURE;
    }
  }
  rl_call call{};
  call.struct_size = sizeof call;
  call.verb = RL_VERB_REFUND;
  call.key = reinterpret_cast<const std::uint8_t *>(key.data());
  call.key_len = key.size();
  call.cost = 1;
  must(rl_decide(limiter.get(), &call, nullptr, nullptr, 0));
  return decision.retry_after_us > 29'000'000 && decision.retry_after_us != RL_NEVER ? EXIT_SUCCESS : EXIT_FAILURE;
}
