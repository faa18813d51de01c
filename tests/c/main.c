/* The tests of the C interface: `tests FOLDER_OF_VECTORS [PART_OF_A_NAME]`. */
#include "support/check.h"
#include "tests.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s FOLDER_OF_VECTORS [PART_OF_A_NAME]\n", argv[0]);
    return EXIT_FAILURE;
  }
  if (argc > 2) {
    check_only(argv[2]);
  }
  /* The library must not need this, so its default, to end the program, is what the tests run with. */
  signal(SIGPIPE, SIG_DFL);
  vectors(argv[1]);
  verbs();
  several();
  batch();
  policies();
  arguments();
  ownership();
  headers();
  client_ip();
  metrics();
  events();
  leases();
  governor();
  concurrency();
  locks();
  in_flight();
  faults();
  long_run();
  return check_summary();
}
