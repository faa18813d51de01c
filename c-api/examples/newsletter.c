/* Sends a newsletter at a pace that mail providers accept: 20 mails a second in all, and two an hour to each provider.
 * A mail waits up to a second for its turn, and is put off when that is not enough; then it has cost nobody anything.
 *
 *   cc newsletter.c $(pkg-config --cflags --libs ratelimit) -o newsletter
 *   ./newsletter ann@example.com bob@example.com cyd@example.com dan@example.net
 */
#include <ratelimit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program when a call of the library failed. */
static void must(rl_status status) {
  if (status != RL_OK) {
    fprintf(stderr, "ratelimit: %s\n", rl_last_error());
    exit(EXIT_FAILURE);
  }
}

static rl_policy *policy(const char *name, const char *text) {
  rl_policy *made;
  must(rl_policy_parse(text, &made));
  must(rl_policy_set_name(made, name));
  return made;
}

int main(int argc, char **argv) {
  rl_store *store;
  rl_limiter *limiter;
  rl_policy *policies[] = {policy("all", "20/s burst 1"), policy("provider", "2/h")};

  must(rl_store_open(NULL, &store));
  must(rl_limiter_new((const rl_policy *const *)policies, 2, store, NULL, &limiter));

  for (int i = 1; i < argc; i++) {
    const char *at = strchr(argv[i], '@');
    const char *provider = at != NULL ? at + 1 : argv[i];
    rl_key keys[] = {
        {"all", (const uint8_t *)"newsletter", strlen("newsletter")},
        {"provider", (const uint8_t *)provider, strlen(provider)},
    };
    rl_call call = {.struct_size = sizeof call, .verb = RL_VERB_WAIT, .cost = 1, .max_wait_us = 1000000};
    call.keys = keys;
    call.keys_len = 2;

    rl_decision decision, each[2];
    rl_status status = rl_decide(limiter, &call, &decision, each, 2);
    if (status == RL_ERR_WAIT_TOO_LONG) {
      printf("put off: %s\n", argv[i]);
    } else {
      must(status);
      printf("sent to %s, %d more to %s this hour\n", argv[i], (int)each[1].remaining, provider);
    }
  }

  rl_limiter_free(limiter);
  rl_policy_free(policies[0]);
  rl_policy_free(policies[1]);
  rl_store_free(store);
  return EXIT_SUCCESS;
}
