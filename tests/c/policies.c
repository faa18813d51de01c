#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <math.h>
#include <string.h>

static void numbers_that_make_no_policy_are_refused_by_name(void) {
  static const struct {
    uint64_t capacity;
    double rate, interval_s;
    const char *sentence;
  } cases[] = {
      {0, 1, 1, "capacity must be between 1 and 2147483647, got 0"},
      {(uint64_t)-1, 1, 1, "capacity must be between 1 and 2147483647, got -1"},
      {UINT64_C(1) << 31, 1, 1, "capacity must be between 1 and 2147483647, got 2147483648"},
      {UINT64_C(1) << 63, 1, 1, "capacity must be between 1 and 2147483647, got "},
      {5, 0, 1, "refill_rate must"},
      {5, -1, 1, "refill_rate must"},
      {5, NAN, 1, "refill_rate must"},
      {5, INFINITY, 1, "refill_rate must"},
      {5, 1, 0, "refill_interval must"},
      {5, 1, -1, "refill_interval must"},
      {5, 1, NAN, "refill_interval must"},
      {5, 1, INFINITY, "refill_interval must"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int continuous = 0; continuous <= 1; continuous++) {
      rl_policy *policy = NULL;
      CHECK_EQUAL(rl_policy_token_bucket(cases[i].capacity, cases[i].rate, cases[i].interval_s, continuous, &policy),
                  RL_ERR_INVALID_POLICY);
      CHECK(policy == NULL);
      CHECK_BEGINS(rl_last_error(), cases[i].sentence);
    }
  }
}

static void limits_and_windows_that_make_no_policy_are_refused_by_name(void) {
  static const uint64_t counts[] = {0, (uint64_t)-1, UINT64_C(1) << 31, (UINT64_C(1) << 53) - 1, UINT64_C(1) << 63};
  static const double spans[] = {0, -5, 0.0004, NAN, INFINITY, -INFINITY, 1e300};
  rl_policy *policy = NULL;
#define CHECK_REFUSED(call, argument)                                                            \
  (CHECK_EQUAL(call, RL_ERR_INVALID_POLICY), CHECK_BEGINS(rl_last_error(), argument " must be "), \
   CHECK(policy == NULL))
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    CHECK_REFUSED(rl_policy_fixed_window(counts[i], 60, i % 2 == 0, &policy), "limit");
    CHECK_REFUSED(rl_policy_sliding_window_log(counts[i], 60, &policy), "limit");
    CHECK_REFUSED(rl_policy_sliding_window_counter(counts[i], 60, &policy), "limit");
    CHECK_REFUSED(rl_policy_leaky_bucket(counts[i], 1, &policy), "capacity");
    CHECK_REFUSED(rl_policy_gcra(counts[i], 60, 1, &policy), "limit");
    if (counts[i] != 0) {
      CHECK_REFUSED(rl_policy_gcra(1, 60, counts[i], &policy), "burst");
    }
  }
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
    CHECK_REFUSED(rl_policy_fixed_window(5, spans[i], i % 2 == 0, &policy), "window");
    CHECK_REFUSED(rl_policy_sliding_window_log(5, spans[i], &policy), "window");
    CHECK_REFUSED(rl_policy_sliding_window_counter(5, spans[i], &policy), "window");
    if (!(spans[i] > 0 && isfinite(spans[i]))) {
      CHECK_REFUSED(rl_policy_leaky_bucket(5, spans[i], &policy), "leak_rate");
      CHECK_REFUSED(rl_policy_gcra(5, spans[i], 0, &policy), "period");
    }
  }
#undef CHECK_REFUSED
}

static void a_burst_of_0_is_the_limit(void) {
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("memory:", &store), RL_OK);
  static const uint64_t bursts[] = {0, 7}, limits[] = {3, 7};
  for (size_t i = 0; i < 2; i++) {
    rl_policy *policy = NULL;
    rl_limiter *limiter = NULL;
    rl_decision decision;
    CHECK_EQUAL(rl_policy_gcra(3, 60, bursts[i], &policy), RL_OK);
    CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &limiter), RL_OK);
    CHECK_EQUAL(peek(limiter, "burst of nobody", 1, &decision), RL_OK);
    CHECK_EQUAL(decision.limit, limits[i]);
    rl_limiter_free(limiter);
    rl_policy_free(policy);
  }
  rl_store_free(store);
}

static void a_text_that_makes_no_policy_is_refused_with_the_place(void) {
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"", "text \"\" needs a number of units at character 1, where there is the end"},
      {"10/fortnight", "text \"10/fortnight\" needs a unit of time: us, ms, s, m, h, d, w or month at character 4"},
      {"20 burst 5/s", "text \"20 burst 5/s\" needs a comma after the burst at character 10"},
      {"100/m nonsense", "text \"100/m nonsense\" needs sliding, log, gcra, burst, aligned or the end at character 7"},
      {"0/s", "limit must be between 1 and 2147483647, got 0"},
      {"1/0s", "window must be between 0.001 and "},
      {"1/day aligned Mars/Base", "zone must be a time zone such as Europe/Berlin, got \"Mars/Base\""},
  };
  rl_policy *policy = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_EQUAL(rl_policy_parse(cases[i].text, &policy), RL_ERR_INVALID_POLICY);
    CHECK_BEGINS(rl_last_error(), cases[i].sentence);
    CHECK(policy == NULL);
  }
  CHECK_EQUAL(rl_policy_parse("100/m caf\xe9", &policy), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "text must be UTF-8");
}

static void a_text_makes_the_policy_that_its_function_makes(void) {
  rl_limiter *by_function = limiter_on("memory:?max_keys=200", 20, 5, 3600, NULL);
  rl_limiter *by_text = limiter_by("memory:?max_keys=200", 1, &(named_policy){"default", "20 burst, 5/h"}, NULL);
  CHECK_EQUAL(remaining_after_one(by_function, "text"), 19);
  CHECK_EQUAL(remaining_after_one(by_text, "text"), 18);
  rl_limiter_free(by_function);
  rl_limiter_free(by_text);
  /* Days of a time zone can be had by a text alone. */
  rl_limiter *day = limiter_by("memory:", 1, &(named_policy){"day", "1000/day aligned Europe/Berlin"}, NULL);
  rl_decision decision;
  CHECK_EQUAL(allow(day, "text", 1, &decision), RL_OK);
  CHECK(decision.allowed && decision.limit == 1000);
  CHECK(decision.reset_after_us <= UINT64_C(25) * 3600 * 1000000);
  rl_limiter_free(day);
}

static void names_that_make_no_policy_are_refused(void) {
  rl_policy *policy = NULL;
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 1, false, &policy), RL_OK);
  char name[102];
  memset(name, 'n', sizeof name);
  name[101] = '\0';
  const char *names[] = {"", name, "two\nlines", "caf\xc3\xa9"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_EQUAL(rl_policy_set_name(policy, names[i]), RL_ERR_INVALID_POLICY);
    CHECK_BEGINS(rl_last_error(), "name must be 1 to 100 printable ASCII characters, got ");
  }
  CHECK_EQUAL(rl_policy_set_name(policy, "caf\xe9"), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "name must be UTF-8");
  name[100] = '\0';
  CHECK_EQUAL(rl_policy_set_name(policy, name), RL_OK);
  rl_policy_free(policy);
}

void policies(void) {
  TEST(numbers_that_make_no_policy_are_refused_by_name);
  TEST(limits_and_windows_that_make_no_policy_are_refused_by_name);
  TEST(a_burst_of_0_is_the_limit);
  TEST(a_text_that_makes_no_policy_is_refused_with_the_place);
  TEST(a_text_makes_the_policy_that_its_function_makes);
  TEST(names_that_make_no_policy_are_refused);
}
