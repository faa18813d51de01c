<?php

declare(strict_types=1);

/**
 * The page, filled in by the router.
 *
 * @var RateLimit\Demo\Settings $settings
 * @var ?RateLimit\Decision $decision null when the store did not answer
 * @var string $problem the sentence that goes with that
 * @var string $store where the state is
 */

$numbers = $settings->toArray();
$text = static fn (int|float|string $value): string => htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE);
$remaining = $decision === null ? '?' : (string) $decision->remaining;

?>
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ratelimit demo</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script src="/demo.js" type="module"></script>
</head>
<body data-capacity="<?= $text($numbers['capacity']) ?>"
<?php if ($decision !== null) : ?>
  data-remaining="<?= $text($decision->remaining) ?>" data-reset-after="<?= $text($decision->resetAfter) ?>"
<?php endif ?>
>
<header>
  <h1>ratelimit</h1>
  <p>A bucket holds tokens, each request takes one, and an empty bucket refuses. Every answer below is a decision of the
  PHP extension; the state is in <strong><?= $text($store) ?></strong>.</p>
</header>

<main>
  <p id="problem" role="alert"<?= $problem === '' ? ' hidden' : '' ?>><?= $text($problem) ?></p>
  <noscript><p class="problem">The buttons of this page need JavaScript. Without it:
  <code>curl -X POST http://localhost:<?= $text($_SERVER['SERVER_PORT']) ?>/test</code></p></noscript>

  <section class="bucket" aria-labelledby="bucket-title">
    <h2 id="bucket-title">Bucket</h2>
    <p class="count"><strong id="remaining"><?= $text($remaining) ?></strong>
    of <span id="capacity-shown"><?= $text($numbers['capacity']) ?></span> tokens left</p>
    <div id="bar" class="bar" role="meter" aria-labelledby="bucket-title" aria-valuemin="0"
      aria-valuemax="<?= $text($numbers['capacity']) ?>" aria-valuenow="<?= $text($decision?->remaining ?? 0) ?>"><span></span></div>
    <p id="refill" class="quiet">As of the last answer.</p>

    <div class="actions">
      <button id="one" type="button" class="primary">Send a request</button>
      <form id="burst">
        <label for="burst-size">or a burst of</label>
        <input id="burst-size" type="number" inputmode="numeric" min="2" max="200" value="15" required>
        <button type="submit">Send</button>
      </form>
    </div>
    <p id="verdict" class="verdict" role="status">No request yet.</p>
  </section>

  <section aria-labelledby="policy-title">
    <h2 id="policy-title">Policy</h2>
    <form id="policy" novalidate>
      <div class="field">
        <label for="capacity">Capacity</label>
        <input id="capacity" name="capacity" inputmode="numeric" autocomplete="off"
          value="<?= $text($numbers['capacity']) ?>" aria-describedby="capacity-hint">
        <small id="capacity-hint">tokens that the bucket holds</small>
      </div>
      <div class="field">
        <label for="refill_rate">Refill rate</label>
        <input id="refill_rate" name="refill_rate" inputmode="decimal" autocomplete="off"
          value="<?= $text($numbers['refill_rate']) ?>" aria-describedby="refill_rate-hint">
        <small id="refill_rate-hint">tokens added per interval</small>
      </div>
      <div class="field">
        <label for="refill_interval">Interval</label>
        <input id="refill_interval" name="refill_interval" inputmode="decimal" autocomplete="off"
          value="<?= $text($numbers['refill_interval']) ?>" aria-describedby="refill_interval-hint">
        <small id="refill_interval-hint">seconds from one refill to the next</small>
      </div>
      <button type="submit">Change the policy</button>
      <p id="policy-said" class="quiet" role="status">A bucket that is not full gets no tokens from a higher capacity: it fills at its rate.</p>
    </form>
  </section>

  <section class="log" aria-labelledby="log-title">
    <h2 id="log-title">Recent answers</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="log-title">
      <table>
        <thead><tr><th scope="col">Time</th><th scope="col">Answer</th><th scope="col">Left</th>
        <th scope="col">Headers that an API would send</th></tr></thead>
        <tbody id="log"><tr class="empty"><td colspan="4">Nothing yet: send a request.</td></tr></tbody>
      </table>
    </div>
  </section>
</main>
</body>
</html>
