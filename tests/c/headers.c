#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <string.h>

static rl_limiter *limiter;
static rl_decision allowed, denied, never;

/* A limiter and three decisions: one of four left, a denial that waits a minute, one that waits for ever. */
static void make_decisions(void) {
  rl_policy *policy = NULL;
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=401", &store), RL_OK);
  CHECK_EQUAL(rl_policy_token_bucket(5, 1, 60, false, &policy), RL_OK);
  CHECK_EQUAL(rl_policy_set_name(policy, "a \"b\""), RL_OK);
  CHECK_EQUAL(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &limiter), RL_OK);
  CHECK_EQUAL(rl_reset(limiter, (const uint8_t *)"key", 3), RL_OK);
  CHECK_EQUAL(allow_at(limiter, "key", 1, 1700000000000000, &allowed), RL_OK);
  CHECK_EQUAL(allow_at(limiter, "key", 5, 1700000000000001, &denied), RL_OK);
  CHECK_EQUAL(allow_at(limiter, "key", 6, 1700000000000001, &never), RL_OK);
  rl_policy_free(policy);
  rl_store_free(store);
}

static void check_headers(const rl_decision *decision, const char *style, const char *expected) {
  char text[1024];
  size_t needed = 0;
  CHECK_EQUAL(rl_headers(limiter, decision, style, NULL, 0, &needed), RL_OK);
  CHECK_EQUAL(needed, strlen(expected) + 1);
  needed = 0;
  CHECK_EQUAL(rl_headers(limiter, decision, style, text, strlen(expected) + 1, &needed), RL_OK);
  CHECK_EQUAL(needed, strlen(expected) + 1);
  if (strcmp(text, expected) != 0) {
    check_failed(__FILE__, __LINE__, "got\n%s  expected\n%s", text, expected);
  }
}

static void a_decision_becomes_header_lines_in_every_style(void) {
  make_decisions();
  static const char ietf[] = "RateLimit-Policy: \"a \\\"b\\\"\";q=5;w=300\r\nRateLimit: \"a \\\"b\\\"\";r=4;t=60\r\n";
  check_headers(&allowed, NULL, ietf);
  check_headers(&allowed, "ietf", ietf);
  check_headers(&allowed, "draft-7", "RateLimit-Policy: 5;w=300\r\nRateLimit: limit=5, remaining=4, reset=60\r\n");
  check_headers(&allowed, "draft-3", "RateLimit-Limit: 5\r\nRateLimit-Remaining: 4\r\nRateLimit-Reset: 60\r\n");
  check_headers(&denied, "x-ratelimit",
                "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset: 60\r\nRetry-After: 60\r\n");
  check_headers(&denied, "none", "Retry-After: 60\r\n");
  check_headers(&never, "none", "");
  check_headers(&allowed, "none", "");
  rl_limiter_free(limiter);
}

static void a_buffer_too_short_stays_as_it_is(void) {
  make_decisions();
  char text[] = "untouched untouched";
  size_t needed = 7;
  CHECK_EQUAL(rl_headers(limiter, &denied, "none", text, 17, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "len must be at least 18, got 17");
  CHECK_BEGINS(text, "untouched untouched");
  CHECK_EQUAL(needed, 7);
  CHECK_EQUAL(rl_headers(limiter, &denied, "none", text, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_headers(limiter, &denied, "none", text, 18, &needed), RL_OK);
  rl_limiter_free(limiter);
}

static void headers_of_no_decision_are_refused(void) {
  make_decisions();
  size_t needed = 7;
  CHECK_EQUAL(rl_headers(NULL, &denied, NULL, NULL, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "limiter must not be NULL");
  CHECK_EQUAL(rl_headers(limiter, NULL, NULL, NULL, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "decision must not be NULL");
  CHECK_EQUAL(rl_headers(limiter, &denied, NULL, NULL, 0, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "needed must not be NULL");
  CHECK_EQUAL(rl_headers(limiter, &denied, "newest", NULL, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "style must be ietf, ");
  rl_decision odd = denied;
  odd.policy = 1;
  CHECK_EQUAL(rl_headers(limiter, &odd, NULL, NULL, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "decision must be one of the limiter, got one by its policy 1");
  memset(&odd, 0xA5, sizeof odd);
  CHECK_EQUAL(rl_headers(limiter, &odd, NULL, NULL, 0, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "decision must be one of this library, got the source ");
  CHECK_EQUAL(needed, 7);
  rl_limiter_free(limiter);
}

static void what_else_headers_can_say_is_said(void) {
  make_decisions();
  char text[1024];
  size_t needed = 0;
  rl_header_options options = {.struct_size = sizeof options, .quota_unit = "content-bytes"};
  options.partition_key = (const uint8_t *)"\x01\x00";
  options.partition_key_len = 2;
  CHECK_EQUAL(rl_headers_with(limiter, &allowed, &options, text, sizeof text, &needed), RL_OK);
  CHECK_BEGINS(text, "RateLimit-Policy: \"a \\\"b\\\"\";q=5;qu=\"content-bytes\";w=300;pk=:AQA=:\r\n"
                     "RateLimit: \"a \\\"b\\\"\";r=4;t=60;pk=:AQA=:\r\n");
  options = (rl_header_options){.struct_size = sizeof options, .style = "x-ratelimit-epoch", .now_us = 1500000};
  CHECK_EQUAL(rl_headers_with(limiter, &denied, &options, text, sizeof text, &needed), RL_OK);
  CHECK(strstr(text, "X-RateLimit-Reset: 62\r\nRetry-After: 60\r\n") != NULL);
  CHECK_EQUAL(rl_headers_with(limiter, &denied, NULL, text, sizeof text, &needed), RL_OK);
  CHECK_BEGINS(text, "RateLimit-Policy: \"a ");
  options = (rl_header_options){.struct_size = sizeof options, .quota_unit = "\n"};
  CHECK_EQUAL(rl_headers_with(limiter, &denied, &options, text, sizeof text, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "quota_unit must be printable ASCII characters");
  options = (rl_header_options){.struct_size = sizeof options, .each = (rl_decision[]){denied, denied}, .each_len = 2};
  CHECK_EQUAL(rl_headers_with(limiter, &denied, &options, text, sizeof text, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "each must be the decisions of the 1 policies, in their order");
  options = (rl_header_options){.struct_size = 3};
  CHECK_EQUAL(rl_headers_with(limiter, &denied, &options, text, sizeof text, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "struct_size must be ");
  rl_limiter_free(limiter);
}

static void a_denial_becomes_a_problem(void) {
  make_decisions();
  char text[1024] = "untouched";
  size_t needed = 7;
  uint32_t status = 7;
  CHECK_EQUAL(rl_problem(limiter, &allowed, NULL, 0, NULL, text, sizeof text, &needed, &status), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "decision must be a denial");
  CHECK_EQUAL(rl_problem(limiter, &denied, NULL, 0, "other", text, sizeof text, &needed, &status), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "type must be quota-exceeded, ");
  CHECK_EQUAL(rl_problem(limiter, &denied, NULL, 0, NULL, text, 9, &needed, &status), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "len must be at least ");
  CHECK_EQUAL(needed, 7);
  CHECK_EQUAL(status, 7);
  CHECK_BEGINS(text, "untouched");
  CHECK_EQUAL(rl_problem(limiter, &denied, NULL, 0, NULL, NULL, 0, &needed, &status), RL_OK);
  CHECK_EQUAL(status, 429);
  CHECK_EQUAL(rl_problem(limiter, &denied, NULL, 0, NULL, text, needed, &needed, &status), RL_OK);
  CHECK_EQUAL(needed, strlen(text) + 1);
  CHECK(strstr(text, "\"detail\":\"The rate limit of 5 is used up. Try again in 60 seconds.\"") != NULL);
  CHECK(strstr(text, "\"violated-policies\":[\"a \\\"b\\\"\"]}") != NULL);
  CHECK_EQUAL(rl_problem(limiter, &never, NULL, 0, "abnormal-usage-detected", text, sizeof text, &needed, &status), RL_OK);
  CHECK(strstr(text, "#abnormal-usage-detected") != NULL && strstr(text, "No wait will help.") != NULL);
  CHECK_EQUAL(rl_problem(limiter, &never, NULL, 0, "temporary-reduced-capacity", text, sizeof text, &needed, &status), RL_OK);
  CHECK_EQUAL(status, 503);
  rl_limiter_free(limiter);
}

void headers(void) {
  TEST(a_decision_becomes_header_lines_in_every_style);
  TEST(a_buffer_too_short_stays_as_it_is);
  TEST(headers_of_no_decision_are_refused);
  TEST(what_else_headers_can_say_is_said);
  TEST(a_denial_becomes_a_problem);
}
