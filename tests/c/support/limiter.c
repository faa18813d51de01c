#include "limiter.h"

#include "check.h"

#include <stdio.h>
#include <string.h>

rl_limiter *limiter_on(const char *dsn, uint64_t capacity, double rate, double interval_s,
                       const rl_limiter_options *options) {
  rl_store *store = NULL;
  rl_policy *policy = NULL;
  rl_limiter *limiter = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  CHECK_EQUAL(rl_policy_token_bucket(capacity, rate, interval_s, false, &policy), RL_OK);
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, options, &limiter), RL_OK);
  rl_policy_free(policy);
  rl_store_free(store);
  return limiter;
}

const char *dsn_of(const server *server) { return dsn_with_limit(server->port, 10); }

const char *dsn_with_limit(int port, double seconds) {
  static char dsn[128];
  snprintf(dsn, sizeof dsn, "redis://127.0.0.1:%d?timeout=%g&connect_timeout=%g", port, seconds, seconds);
  return dsn;
}

rl_status allow(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out) {
  return rl_allow(limiter, (const uint8_t *)key, strlen(key), cost, out);
}

rl_status peek(rl_limiter *limiter, const char *key, int64_t cost, rl_decision *out) {
  return rl_peek(limiter, (const uint8_t *)key, strlen(key), cost, out);
}

uint64_t remaining_after_one(rl_limiter *limiter, const char *key) {
  rl_decision decision = {0};
  rl_status status = allow(limiter, key, 1, &decision);
  if (status != RL_OK) {
    check_failed(__FILE__, __LINE__, "%s", rl_last_error());
  }
  CHECK(decision.allowed);
  return decision.remaining;
}
