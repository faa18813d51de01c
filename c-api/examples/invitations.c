/* Sends invitations, but nobody gets more than two a day: all guests are asked about at once, in one round trip.
 *
 *   cc invitations.c $(pkg-config --cflags --libs ratelimit) -o invitations
 *   ./invitations ann@example.com bob@example.com ann@example.com
 */
#include <inttypes.h>
#include <ratelimit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GUESTS = 100 };

/* Ends the program when a call of the library failed. */
static void must(rl_status status) {
  if (status != RL_OK) {
    fprintf(stderr, "ratelimit: %s\n", rl_last_error());
    exit(EXIT_FAILURE);
  }
}

int main(int argc, char **argv) {
  rl_store *store;
  rl_policy *policy;
  rl_limiter *limiter;
  rl_batch_item items[MOST_GUESTS];
  rl_decision decisions[MOST_GUESTS];
  rl_status statuses[MOST_GUESTS];
  size_t guests = argc > MOST_GUESTS ? MOST_GUESTS : (size_t)argc - 1;

  must(rl_store_open(NULL, &store));
  must(rl_policy_parse("2/day", &policy));
  must(rl_policy_set_name(policy, "invitation"));
  must(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &limiter));

  for (size_t i = 0; i < guests; i++) {
    items[i] = (rl_batch_item){.key = (const uint8_t *)argv[i + 1], .key_len = strlen(argv[i + 1]), .cost = 1};
  }
  rl_status status = rl_allow_many(limiter, items, guests, decisions, statuses);
  /* Without an answer for some of them, the others are still served. */
  if (status != RL_ERR_STORE_UNAVAILABLE) {
    must(status);
  }
  for (size_t i = 0; i < guests; i++) {
    if (statuses[i] != RL_OK) {
      printf("try again: %s\n", argv[i + 1]);
    } else if (decisions[i].allowed) {
      printf("invited %s, %" PRIu64 " more today\n", argv[i + 1], decisions[i].remaining);
    } else {
      printf("invited often enough: %s\n", argv[i + 1]);
    }
  }

  rl_limiter_free(limiter);
  rl_policy_free(policy);
  rl_store_free(store);
  return EXIT_SUCCESS;
}
