#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const url = "https://api.test/things/1";

/* A governor on the store of a DSN; `options` may be NULL. */
static rl_governor *governor_on(const char *preset, const char *dsn, rl_governor_options *options) {
  rl_store *store = NULL;
  rl_governor *governor = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  if (options != NULL) options->struct_size = sizeof *options;
  CHECK_EQUAL(rl_governor_new(preset, store, options, &governor), RL_OK);
  /* The governor keeps the store. */
  rl_store_free(store);
  return governor;
}

/* Asks for a request and tells what came back; the advice after it. */
static rl_advice exchange(rl_governor *governor, const rl_request *request, uint16_t status, const rl_header *headers,
                          size_t headers_len) {
  rl_ticket *ticket = NULL;
  rl_advice advice;
  CHECK_EQUAL(rl_governor_before_request(governor, request, &ticket, &advice), RL_OK);
  CHECK_EQUAL(advice.step, RL_STEP_SEND);
  CHECK_EQUAL(rl_governor_after(governor, ticket, status, headers, headers_len, NULL, 0, &advice), RL_OK);
  rl_ticket_free(ticket);
  return advice;
}

/* What is advised for a request that is then given up. */
static rl_advice advice_for(rl_governor *governor, const rl_request *request) {
  rl_ticket *ticket = NULL;
  rl_advice advice;
  CHECK_EQUAL(rl_governor_before_request(governor, request, &ticket, &advice), RL_OK);
  rl_ticket_free(ticket);
  return advice;
}

static rl_request get(void) {
  rl_request request = {.struct_size = sizeof request, .method = "GET", .url = url};
  return request;
}

static void what_an_api_tells_is_waited_for_and_can_be_looked_at_and_forgotten(void) {
  rl_governor *governor = governor_on("default", "memory:?max_keys=601", NULL);
  rl_bucket_state state;
  CHECK_EQUAL(rl_governor_state(governor, "GET", url, NULL, &state), RL_OK);
  CHECK(!state.known);
  const rl_header headers[] = {
      {"X-RateLimit-Limit", "9"}, {"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "60"}};
  rl_request request = get();
  CHECK_EQUAL(exchange(governor, &request, 200, headers, 3).step, RL_STEP_RETURN);
  rl_advice advice = advice_for(governor, &request);
  CHECK_EQUAL(advice.step, RL_STEP_WAIT);
  CHECK(advice.delay_us > 50000000 && advice.delay_us <= 61000000 && !advice.degraded);
  CHECK_EQUAL(rl_governor_state(governor, "GET", url, NULL, &state), RL_OK);
  CHECK(state.known && state.retry_after_us > 50000000);
  CHECK_EQUAL(state.limit, 9);
  CHECK_EQUAL(state.remaining, 0);
  CHECK_EQUAL(rl_governor_forget(governor, "GET", url, NULL), RL_OK);
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_SEND);
  rl_governor_free(governor);
}

static void what_one_request_asks_for_goes_before_the_options(void) {
  rl_governor_options options = {.max_retries = 2};
  rl_governor *governor = governor_on("default", "memory:?max_keys=602", &options);
  const rl_header headers[] = {{"Retry-After", "30"}};
  rl_request never = get();
  never.max_retries = UINT32_MAX;
  rl_advice advice = exchange(governor, &never, 429, headers, 1);
  CHECK_EQUAL(advice.step, RL_STEP_FAIL);
  CHECK_EQUAL(advice.delay_us, 30000000);
  rl_request request = get();
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_WAIT);
  request.max_delay_us = 1000000;
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_REFUSE);
  request.max_delay_us = RL_NEVER;
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_WAIT);
  request.bucket = "another";
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_SEND);
  request = get();
  request.identity = "somebody else";
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_SEND);
  request = get();
  request.disabled = true;
  CHECK_EQUAL(advice_for(governor, &request).step, RL_STEP_SEND);
  rl_governor_free(governor);
}

static void a_store_that_is_away_breaks_a_call_only_where_that_was_asked_for(void) {
  char dsn[128], bucket[64];
  strcpy(dsn, dsn_with_limit(1, 1.0));
  rl_request request = get();
  /* What stands in is the store of this host, where an earlier run may have left something. */
  snprintf(bucket, sizeof bucket, "of the process %d", (int)getpid());
  request.bucket = bucket;
  rl_governor *governor = governor_on("default", dsn, NULL);
  rl_advice advice = advice_for(governor, &request);
  CHECK_EQUAL(advice.step, RL_STEP_SEND);
  CHECK(advice.degraded);
  rl_governor_free(governor);

  rl_governor_options options = {.on_error = RL_OUTAGE_CLOSED};
  governor = governor_on("default", dsn, &options);
  advice = advice_for(governor, &request);
  CHECK_EQUAL(advice.step, RL_STEP_WAIT);
  CHECK_EQUAL(advice.delay_us, 1000000);
  rl_governor_free(governor);

  options.on_error = RL_OUTAGE_THROW;
  governor = governor_on("default", dsn, &options);
  rl_ticket *ticket = NULL;
  CHECK_EQUAL(rl_governor_before_request(governor, &request, &ticket, &advice), RL_ERR_STORE_UNAVAILABLE);
  CHECK(ticket == NULL);
  rl_bucket_state state;
  CHECK_EQUAL(rl_governor_state(governor, "GET", url, NULL, &state), RL_ERR_STORE_UNAVAILABLE);
  rl_governor_free(governor);
}

static void wrong_arguments_are_refused_with_a_sentence(void) {
  rl_store *store = NULL;
  rl_governor *governor = NULL;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=603", &store), RL_OK);
  CHECK_EQUAL(rl_governor_new("myspace", store, NULL, &governor), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "preset must be one of");
  rl_governor_options options = {.struct_size = sizeof options, .on_error = 9};
  CHECK_EQUAL(rl_governor_new("default", store, &options, &governor), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "on_error must be one of rl_outage, got 9");
  options.on_error = RL_OUTAGE_OPEN;
  options.jitter = 2;
  CHECK_EQUAL(rl_governor_new("default", store, &options, &governor), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "jitter must be between 0 and 1, got 2");
  options.jitter = 0;
  CHECK_EQUAL(rl_governor_new("default", store, &options, &governor), RL_OK);
  rl_store_free(store);

  rl_ticket *ticket = NULL;
  rl_advice advice;
  CHECK_EQUAL(rl_governor_before_request(governor, NULL, &ticket, &advice), RL_ERR_INVALID_ARGUMENT);
  rl_request request = get();
  request.max_retries = 101;
  CHECK_EQUAL(rl_governor_before_request(governor, &request, &ticket, &advice), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "max_retries must be between 0 and 100, got 101");
  request = get();
  request.url = "/relative?token=hunter2";
  CHECK_EQUAL(rl_governor_before_request(governor, &request, &ticket, &advice), RL_ERR_INVALID_ARGUMENT);
  CHECK(strstr(rl_last_error(), "hunter2") == NULL);
  CHECK(ticket == NULL);
  rl_governor_free(governor);
}

static void work_is_counted(void) {
  rl_governor *governor = governor_on("okta", "memory:?max_keys=604", NULL);
  rl_request request = get();
  exchange(governor, &request, 200, NULL, 0);
  char text[32768];
  CHECK(rl_metrics(text, sizeof text) <= sizeof text);
  CHECK(strstr(text, "rate_limiter_outbound_requests_total{preset=\"okta\"} 1\n") != NULL);
  CHECK(strstr(text, "api.test") == NULL);
  rl_governor_free(governor);
}

void governor(void) {
  TEST(what_an_api_tells_is_waited_for_and_can_be_looked_at_and_forgotten);
  TEST(what_one_request_asks_for_goes_before_the_options);
  TEST(a_store_that_is_away_breaks_a_call_only_where_that_was_asked_for);
  TEST(wrong_arguments_are_refused_with_a_sentence);
  TEST(work_is_counted);
}
