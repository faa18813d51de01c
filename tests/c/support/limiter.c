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

rl_limiter *limiter_by(const char *dsn, size_t n, const named_policy *policies, const rl_limiter_options *options) {
  rl_store *store = NULL;
  rl_policy *made[32] = {NULL};
  rl_limiter *limiter = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  for (size_t i = 0; i < n; i++) {
    if (rl_policy_parse(policies[i].text, &made[i]) != RL_OK ||
        rl_policy_set_name(made[i], policies[i].name) != RL_OK) {
      check_failed(__FILE__, __LINE__, "%s", rl_last_error());
    }
  }
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const *)made, n, store, options, &limiter), RL_OK);
  for (size_t i = 0; i < n; i++) {
    rl_policy_free(made[i]);
  }
  rl_store_free(store);
  return limiter;
}

/* Windows that stand at multiples of their length are long enough for no test to meet their edge. */
const named_policy five_of[ALGORITHMS] = {
    {"token bucket", "5 burst, 1/h"},      {"continuous", "5 burst, 1/h continuous"},
    {"leaky bucket", "5 burst, 1/h leaky"}, {"gcra", "1/h burst 5"},
    {"first hit", "5/2h"},                 {"aligned", "5/1000d aligned"},
    {"log", "5/2h log"},                   {"counter", "5/1000d sliding"},
};

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

rl_status reserve(rl_limiter *limiter, const char *key, int64_t cost, uint64_t max_wait_us, rl_decision *out) {
  return rl_reserve(limiter, (const uint8_t *)key, strlen(key), cost, max_wait_us, out);
}

rl_status wait_for(rl_limiter *limiter, const char *key, int64_t cost, uint64_t max_wait_us, rl_decision *out) {
  return rl_wait(limiter, (const uint8_t *)key, strlen(key), cost, max_wait_us, out);
}

rl_status refund(rl_limiter *limiter, const char *key, int64_t cost) {
  return rl_refund(limiter, (const uint8_t *)key, strlen(key), cost);
}

rl_call call_of(rl_verb verb, const char *key, int64_t cost) {
  return (rl_call){
      .struct_size = sizeof(rl_call),
      .verb = verb,
      .key = (const uint8_t *)key,
      .key_len = strlen(key),
      .cost = cost,
  };
}

rl_status decide(rl_limiter *limiter, const rl_call *call, rl_decision *out) {
  return rl_decide(limiter, call, out, NULL, 0);
}

rl_status allow_at(rl_limiter *limiter, const char *key, int64_t cost, uint64_t now_us, rl_decision *out) {
  rl_call call = call_of(RL_VERB_ALLOW, key, cost);
  call.now_us = now_us;
  return decide(limiter, &call, out);
}

rl_key key_of(const char *policy, const char *key) {
  return (rl_key){.policy = policy, .key = (const uint8_t *)key, .key_len = strlen(key)};
}

uint64_t remaining(rl_limiter *limiter, const char *key) {
  rl_decision decision = {0};
  if (peek(limiter, key, 1, &decision) != RL_OK) {
    check_failed(__FILE__, __LINE__, "%s", rl_last_error());
  }
  return decision.remaining;
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
