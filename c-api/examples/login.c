/* Limits login attempts: five at once per address, then one every ten seconds.
 *
 *   cc login.c $(pkg-config --cflags --libs ratelimit) -o login
 *   ./login 192.0.2.7                                            this process's memory
 *   RATELIMIT_STORE=redis://127.0.0.1:6379 ./login 192.0.2.7     one budget for all processes and hosts
 */
#include <inttypes.h>
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

int main(int argc, char **argv) {
  const char *address = argc > 1 ? argv[1] : "192.0.2.7";
  rl_store *store;
  rl_policy *policy;
  rl_limiter *limiter;

  must(rl_store_open(NULL, &store));
  must(rl_policy_token_bucket(5, 1, 10, false, &policy));
  must(rl_policy_set_name(policy, "login"));
  must(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &limiter));

  for (int attempt = 1; attempt <= 6; attempt++) {
    rl_decision decision;
    must(rl_allow(limiter, (const uint8_t *)address, strlen(address), 1, &decision));
    if (decision.allowed) {
      printf("attempt %d: go ahead, %" PRIu64 " of %" PRIu64 " left\n", attempt, decision.remaining, decision.limit);
    } else {
      printf("attempt %d: wait %.0f s\n", attempt, (double)decision.retry_after_us / 1e6);
    }
  }

  rl_limiter_free(limiter);
  rl_policy_free(policy);
  rl_store_free(store);
  return EXIT_SUCCESS;
}
