#include "tests.h"

#include "support/check.h"

#include <ratelimit.h>
#include <string.h>

static rl_client_ip *behind(const char *proxy, const char *header, uint32_t ipv6_prefix) {
  rl_client_ip *made = NULL;
  CHECK_EQUAL(rl_client_ip_new((const char *const[]){proxy}, proxy == NULL ? 0 : 1, header, ipv6_prefix, &made), RL_OK);
  return made;
}

/* Ends the test unless the caller is the expected one; the headers are NULL where they are not there. */
static void check_client(rl_client_ip *client_ip, const char *peer, const char *forwarded, const char *x_forwarded_for,
                         const char *expected) {
  char text[64];
  size_t needed = 0;
  CHECK_EQUAL(rl_client_ip_resolve(client_ip, peer, &forwarded, forwarded == NULL ? 0 : 1, &x_forwarded_for,
                                   x_forwarded_for == NULL ? 0 : 1, text, sizeof text, &needed),
              RL_OK);
  if (strcmp(text, expected) != 0) {
    check_failed(__FILE__, __LINE__, "got %s, expected %s", text, expected);
  }
  CHECK_EQUAL(needed, strlen(expected) + 1);
}

static void only_a_trusted_peer_says_who_it_had_before_it(void) {
  rl_client_ip *client_ip = behind("10.0.0.0/8", NULL, 0);
  check_client(client_ip, "10.0.0.1:4711", NULL, "6.6.6.6, 203.0.113.9, 10.0.0.2", "203.0.113.9");
  check_client(client_ip, "10.0.0.1", "for=6.6.6.6, for=\"[2001:db8:1:2::3]:1\"", NULL, "2001:db8:1:2::/64");
  check_client(client_ip, "::ffff:10.0.0.1", NULL, "6.6.6.6, unknown", "10.0.0.1");
  check_client(client_ip, "198.51.100.7", "for=6.6.6.6", "6.6.6.6", "198.51.100.7");
  check_client(client_ip, "10.0.0.1", "for=6.6.6.6", "203.0.113.9", "10.0.0.1");
  check_client(client_ip, NULL, NULL, "6.6.6.6", "");
  check_client(client_ip, "", NULL, NULL, "");
  rl_client_ip_free(client_ip);
  client_ip = behind("unix", "x-forwarded-for", 56);
  check_client(client_ip, NULL, "for=6.6.6.6", "2001:db8:1:2ff::3", "2001:db8:1:200::/56");
  rl_client_ip_free(client_ip);
  client_ip = behind(NULL, NULL, 128);
  check_client(client_ip, "2001:db8::1%eth0", NULL, "6.6.6.6", "2001:db8::1");
  rl_client_ip_free(client_ip);
  rl_client_ip_free(NULL);
}

static void what_is_no_proxy_is_refused(void) {
  rl_client_ip *made = NULL;
  CHECK_EQUAL(rl_client_ip_new((const char *const[]){"10.0.0.0/33"}, 1, NULL, 0, &made), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "trusted_proxies must be addresses, networks such as 10.0.0.0/8, or unix, got \"10.0.0.0/33\"");
  CHECK_EQUAL(rl_client_ip_new((const char *const[]){NULL}, 1, NULL, 0, &made), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "trusted must not be NULL");
  CHECK_EQUAL(rl_client_ip_new(NULL, 0, "via", 0, &made), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "header must be auto, forwarded or x-forwarded-for, got \"via\"");
  CHECK_EQUAL(rl_client_ip_new(NULL, 0, NULL, 129, &made), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "ipv6_prefix must be between 1 and 128, got 129");
  CHECK(made == NULL);
}

static void a_buffer_too_short_for_an_address_stays_as_it_is(void) {
  rl_client_ip *client_ip = behind(NULL, NULL, 0);
  char text[] = "untouched";
  size_t needed = 7;
  CHECK_EQUAL(rl_client_ip_resolve(client_ip, "192.0.2.1", NULL, 0, NULL, 0, text, 9, &needed), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "len must be at least 10, got 9");
  CHECK_BEGINS(text, "untouched");
  CHECK_EQUAL(needed, 7);
  CHECK_EQUAL(rl_client_ip_resolve(client_ip, "192.0.2.1", NULL, 0, NULL, 0, NULL, 0, &needed), RL_OK);
  CHECK_EQUAL(needed, 10);
  rl_client_ip_free(client_ip);
}

void client_ip(void) {
  TEST(only_a_trusted_peer_says_who_it_had_before_it);
  TEST(what_is_no_proxy_is_refused);
  TEST(a_buffer_too_short_for_an_address_stays_as_it_is);
}
