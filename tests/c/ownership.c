#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static rl_store *store;
static rl_policy *policy;

static void open_both(void) {
  CHECK_EQUAL(rl_store_open("memory:?max_keys=100", &store), RL_OK);
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 3600, false, &policy), RL_OK);
}

static void free_both(void) {
  rl_policy_free(policy);
  rl_store_free(store);
}

static rl_limiter *limiter_with(const rl_limiter_options *options) {
  rl_limiter *limiter = NULL;
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, options, &limiter), RL_OK);
  return limiter;
}

static rl_status status_with(const rl_limiter_options *options) {
  rl_limiter *limiter = NULL;
  rl_status status = rl_limiter_new((const rl_policy *const[]){policy}, 1, store, options, &limiter);
  CHECK((status == RL_OK) == (limiter != NULL));
  rl_limiter_free(limiter);
  return status;
}

static void freeing_null_is_nothing(void) {
  rl_store_free(NULL);
  rl_policy_free(NULL);
  rl_limiter_free(NULL);
}

static void a_limiter_outlives_its_policy_and_its_store(void) {
  open_both();
  rl_limiter *limiter = limiter_with(NULL);
  free_both();
  CHECK_EQUAL(remaining_after_one(limiter, "outlives"), 4);
  rl_limiter_free(limiter);
}

static void a_renamed_policy_leaves_its_limiters_as_they_are(void) {
  open_both();
  rl_limiter *before = limiter_with(NULL);
  CHECK_EQUAL(rl_policy_set_name(policy, "renamed"), RL_OK);
  rl_limiter *after = limiter_with(NULL);
  CHECK_EQUAL(remaining_after_one(before, "name"), 4);
  CHECK_EQUAL(remaining_after_one(after, "name"), 4);
  CHECK_EQUAL(remaining_after_one(before, "name"), 3);
  rl_limiter_free(before);
  rl_limiter_free(after);
  free_both();
}

static void the_same_dsn_is_the_same_store(void) {
  rl_limiter *one = limiter_on("memory:?max_keys=101", 5, 1, 3600, NULL);
  rl_limiter *two = limiter_on("memory:?max_keys=101", 5, 1, 3600, NULL);
  rl_limiter *other = limiter_on("memory:?max_keys=102", 5, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(one, "shared"), 4);
  CHECK_EQUAL(remaining_after_one(two, "shared"), 3);
  CHECK_EQUAL(remaining_after_one(other, "shared"), 4);
  rl_limiter_free(one);
  rl_limiter_free(two);
  rl_limiter_free(other);
}

/* Nothing is connected to before something is asked. */
static void a_store_of_every_kind_opens_without_its_servers(void) {
  static const char *dsns[] = {"redis://user:password@cache:6380/1?timeout=0.5&connect_timeout=1&prefix=app:&pool=2",
                               "valkey://cache?protocol=resp3&client_name=web&clock=caller",
                               "rediss://cache?insecure=1",
                               "valkeys://cache?insecure=1&server_name=other",
                               "redis+unix:///run/redis.sock?db=2",
                               "redis+sentinel://s1,s2:26380,[::1]/mymaster/1?sentinel_password=hunter2",
                               "rediss+sentinel://s1/mymaster?insecure=1",
                               "redis+cluster://c1,c2:7000",
                               "valkeys+cluster://c1?insecure=1"};
  for (size_t i = 0; i < sizeof dsns / sizeof *dsns; i++) {
    rl_store *opened = NULL;
    if (rl_store_open(dsns[i], &opened) != RL_OK) {
      check_failed(__FILE__, __LINE__, "%s: %s", dsns[i], rl_last_error());
    }
    CHECK(opened != NULL);
    rl_store_free(opened);
  }
}

static void without_a_dsn_the_environment_names_the_store(void) {
  const char *variable = getenv("RATELIMIT_STORE");
  char *before = variable == NULL ? NULL : strdup(variable);
  setenv("RATELIMIT_STORE", "memory:?max_keys=103", 1);
  rl_limiter *by_variable = limiter_on(NULL, 5, 1, 3600, NULL);
  rl_limiter *by_name = limiter_on("memory:?max_keys=103", 5, 1, 3600, NULL);
  CHECK_EQUAL(remaining_after_one(by_variable, "default"), 4);
  CHECK_EQUAL(remaining_after_one(by_name, "default"), 3);
  setenv("RATELIMIT_STORE", "nonsense", 1);
  rl_store *none = NULL;
  CHECK_EQUAL(rl_store_open(NULL, &none), RL_ERR_INVALID_STORE);
  unsetenv("RATELIMIT_STORE");
  rl_limiter *by_default = limiter_on(NULL, 5, 1, 3600, NULL);
  /* As tests/c/run has it: what comes later must not work on the shared store of whoever runs this. */
  setenv("RATELIMIT_STORE", "memory:", 1);
  /* Everything of this user is in there, also from the last run. */
  char key[64];
  snprintf(key, sizeof key, "default-%ld-%ld", (long)getpid(), (long)time(NULL));
  CHECK_EQUAL(remaining_after_one(by_default, key), 4);
  if (before != NULL) {
    /* Other tests must not work on the shared store of whoever runs them. */
    setenv("RATELIMIT_STORE", before, 1);
    free(before);
  }
  rl_limiter_free(by_variable);
  rl_limiter_free(by_name);
  rl_limiter_free(by_default);
}

static void a_limiter_takes_1_to_32_policies(void) {
  open_both();
  rl_limiter *limiter = NULL;
  rl_policy *many[33];
  for (size_t i = 0; i < 33; i++) {
    char name[16];
    snprintf(name, sizeof name, "policy %zu", i);
    CHECK_EQUAL(rl_policy_gcra(5, 3600, 0, &many[i]), RL_OK);
    CHECK_EQUAL(rl_policy_set_name(many[i], name), RL_OK);
  }
  const rl_policy *const *policies = (const rl_policy *const *)many;
  CHECK_EQUAL(rl_limiter_new(NULL, 0, store, NULL, &limiter), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "policies must be 1 to 32 policies, got 0");
  CHECK_EQUAL(rl_limiter_new(policies, 33, store, NULL, &limiter), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "policies must be 1 to 32 policies, got 33");
  CHECK_EQUAL(rl_limiter_new(policies, SIZE_MAX, store, NULL, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "n must be at most ");
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy, policy}, 2, store, NULL, &limiter),
              RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "policies must differ in name, algorithm or window");
  CHECK(limiter == NULL);
  CHECK_EQUAL(rl_limiter_new(policies, 32, store, NULL, &limiter), RL_OK);
  for (size_t i = 0; i < 33; i++) {
    rl_policy_free(many[i]);
  }
  CHECK_EQUAL(remaining_after_one(limiter, "of many"), 4);
  rl_limiter_free(limiter);
  free_both();
}

static void options_of_another_size_are_refused(void) {
  open_both();
  CHECK_EQUAL(status_with(&(rl_limiter_options){.struct_size = sizeof(rl_limiter_options)}), RL_OK);
  static const uint32_t sizes[] = {0, 4, sizeof(rl_limiter_options) - 1, sizeof(rl_limiter_options) + 8, UINT32_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_EQUAL(status_with(&(rl_limiter_options){.struct_size = sizes[i]}), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), "struct_size must be ");
  }
  /* Only the size is read of a struct that is shorter than today's. */
  uint32_t *short_struct = malloc(sizeof *short_struct);
  CHECK(short_struct != NULL);
  *short_struct = sizeof *short_struct;
  CHECK_EQUAL(status_with((const rl_limiter_options *)(void *)short_struct), RL_ERR_INVALID_ARGUMENT);
  free(short_struct);
  free_both();
}

static void a_number_that_is_no_failure_rule_is_refused(void) {
  open_both();
  rl_limiter_options options = {.struct_size = sizeof options};
  for (uint32_t rule = 0; rule <= 3; rule++) {
    memcpy(&options.on_error, &rule, sizeof rule);
    CHECK_EQUAL(status_with(&options), RL_OK);
  }
  static const uint32_t wrong[] = {4, 5, 255, 0x7fffffff, 0x80000000, UINT32_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    memcpy(&options.on_error, &wrong[i], sizeof wrong[i]);
    CHECK_EQUAL(status_with(&options), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), "on_error must be one of rl_on_error, got ");
  }
  free_both();
}

static void a_bool_with_odd_bits_is_true(void) {
  open_both();
  rl_limiter_options options = {.struct_size = sizeof options};
  memset(&options.hash_keys, 0xA5, sizeof options.hash_keys);
  rl_limiter *odd = limiter_with(&options);
  options.hash_keys = true;
  rl_limiter *hashed = limiter_with(&options);
  rl_limiter *plain = limiter_with(NULL);
  CHECK_EQUAL(remaining_after_one(odd, "odd"), 4);
  CHECK_EQUAL(remaining_after_one(hashed, "odd"), 3);
  CHECK_EQUAL(remaining_after_one(plain, "odd"), 4);
  rl_limiter_free(odd);
  rl_limiter_free(hashed);
  rl_limiter_free(plain);
  free_both();
}

static void with_hashed_keys_no_identity_reaches_redis(void) {
  server redis = server_start();
  char secret[] = "a secret";
  rl_limiter_options options = {.struct_size = sizeof options, .hash_keys = true, .secret = secret};
  rl_limiter *keyed = limiter_on(dsn_of(&redis), 5, 1, 3600, &options);
  /* The secret has been copied. */
  memset(secret, 'x', sizeof secret - 1);
  CHECK_EQUAL(remaining_after_one(keyed, "192.0.2.10"), 4);
  CHECK_EQUAL(remaining_after_one(keyed, "192.0.2.10"), 3);
  CHECK_BEGINS(server_command(&redis, "DBSIZE"), ":1\r\n");
  const char *stored = server_command(&redis, "RANDOMKEY");
  CHECK(strstr(stored, "rl:tb:default:{#") != NULL);
  CHECK(strstr(stored, "192.0.2.10") == NULL);
  options.secret = NULL;
  rl_limiter *unkeyed = limiter_on(dsn_of(&redis), 5, 1, 3600, &options);
  CHECK_EQUAL(remaining_after_one(unkeyed, "192.0.2.10"), 4);
  rl_limiter_free(keyed);
  rl_limiter_free(unkeyed);
  server_end(&redis);
}

static void while_one_secret_takes_over_from_another_both_share_the_limit(void) {
  server redis = server_start();
  const char *both[] = {"new", "old"};
  rl_limiter_options options = {.struct_size = sizeof options, .hash_keys = true, .secret = "old"};
  rl_limiter *old = limiter_on(dsn_of(&redis), 5, 1, 3600, &options);
  options.secret = NULL;
  options.secrets = both;
  options.secrets_len = 2;
  rl_limiter *overlap = limiter_on(dsn_of(&redis), 5, 1, 3600, &options);
  options.secrets_len = 1;
  rl_limiter *fresh = limiter_on(dsn_of(&redis), 5, 1, 3600, &options);
  CHECK_EQUAL(remaining_after_one(old, "key"), 4);
  CHECK_EQUAL(remaining_after_one(overlap, "key"), 3);
  CHECK_EQUAL(remaining_after_one(old, "key"), 2);
  CHECK_EQUAL(remaining_after_one(fresh, "key"), 3);
  CHECK_EQUAL(remaining_after_one(overlap, "key"), 1);
  rl_limiter_free(old);
  rl_limiter_free(overlap);
  rl_limiter_free(fresh);
  server_end(&redis);
}

static void secrets_that_are_none_are_refused(void) {
  rl_store *store = NULL;
  rl_policy *policy = NULL;
  rl_limiter *limiter = NULL;
  CHECK_EQUAL(rl_store_open("memory:", &store), RL_OK);
  CHECK_EQUAL(rl_policy_parse("5/m", &policy), RL_OK);
  const rl_policy *policies[] = {policy};
  const char *secrets[] = {"a", "", NULL};
  rl_limiter_options options = {.struct_size = sizeof options, .secret = ""};
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, &options, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "secret must not be empty");
  options.secrets = secrets;
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, &options, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "secrets must be NULL when secret is not");
  options.secret = NULL;
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, &options, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "secret must be 1 to 4 secrets, got 0");
  options.secrets_len = 2;
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, &options, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "secret must not have an empty one, got one at index 1");
  options.secrets_len = 3;
  CHECK_EQUAL(rl_limiter_new(policies, 1, store, &options, &limiter), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "secrets must not be NULL");
  CHECK(limiter == NULL);
  rl_policy_free(policy);
  rl_store_free(store);
}

static void a_reset_makes_the_budget_whole(void) {
  server redis = server_start();
  const char *dsns[] = {"memory:?max_keys=104", dsn_of(&redis)};
  for (size_t i = 0; i < 2; i++) {
    rl_limiter *limiter = limiter_on(dsns[i], 5, 1, 3600, NULL);
    rl_decision decision;
    CHECK_EQUAL(allow(limiter, "again", 5, &decision), RL_OK);
    CHECK_EQUAL(decision.remaining, 0);
    CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"again", 5), RL_OK);
    CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"again", 5), RL_OK);
    CHECK_EQUAL(peek(limiter, "again", 5, &decision), RL_OK);
    CHECK(decision.allowed);
    CHECK_EQUAL(decision.remaining, 5);
    rl_limiter_free(limiter);
  }
  server_end(&redis);
}

static void *fail_differently(void *none) {
  (void)none;
  if (strcmp(rl_last_error(), "") != 0) {
    return (void *)"a new thread has no error";
  }
  rl_store *unused;
  rl_store_open("http://cache", &unused);
  return strstr(rl_last_error(), "http") != NULL ? NULL : (void *)"the error of the thread is its own";
}

static void an_error_text_stays_until_the_next_call_of_its_thread(void) {
  rl_policy *unused = NULL;
  CHECK_EQUAL(rl_policy_token_bucket(0, 1, 1, false, &unused), RL_ERR_INVALID_POLICY);
  const char *text = rl_last_error();
  CHECK(rl_last_error() == text);
  pthread_t other;
  void *complaint;
  CHECK(pthread_create(&other, NULL, fail_differently, NULL) == 0);
  CHECK(pthread_join(other, &complaint) == 0);
  CHECK(complaint == NULL);
  CHECK_BEGINS(text, "capacity must be between 1 and 2147483647, got 0");
  CHECK_EQUAL(rl_policy_token_bucket(1, 0, 1, false, &unused), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "refill_rate");
}

static void a_call_that_works_leaves_the_last_sentence(void) {
  rl_policy *good = NULL;
  CHECK_EQUAL(rl_policy_token_bucket(0, 1, 1, false, &good), RL_ERR_INVALID_POLICY);
  CHECK_EQUAL(rl_policy_token_bucket(1, 1, 1, false, &good), RL_OK);
  CHECK_BEGINS(rl_last_error(), "capacity must be");
  rl_policy_free(good);
}

static void the_version_is_three_numbers(void) {
  const char *version = rl_version();
  size_t dots = 0;
  for (const char *c = version; *c != '\0'; c++) {
    CHECK(*c == '.' || (*c >= '0' && *c <= '9'));
    dots += *c == '.';
  }
  CHECK_EQUAL(dots, 2);
}

void ownership(void) {
  TEST(freeing_null_is_nothing);
  TEST(a_limiter_outlives_its_policy_and_its_store);
  TEST(a_renamed_policy_leaves_its_limiters_as_they_are);
  TEST(the_same_dsn_is_the_same_store);
  TEST(a_store_of_every_kind_opens_without_its_servers);
  TEST(without_a_dsn_the_environment_names_the_store);
  TEST(a_limiter_takes_1_to_32_policies);
  TEST(options_of_another_size_are_refused);
  TEST(a_number_that_is_no_failure_rule_is_refused);
  TEST(a_bool_with_odd_bits_is_true);
  TEST(with_hashed_keys_no_identity_reaches_redis);
  TEST(while_one_secret_takes_over_from_another_both_share_the_limit);
  TEST(secrets_that_are_none_are_refused);
  TEST(a_reset_makes_the_budget_whole);
  TEST(an_error_text_stays_until_the_next_call_of_its_thread);
  TEST(a_call_that_works_leaves_the_last_sentence);
  TEST(the_version_is_three_numbers);
}
