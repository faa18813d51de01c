// What the page does. Every number it shows comes from an answer of the server; it decides nothing itself.

const LOG_ROWS = 50;
const byId = (id) => document.getElementById(id);

let capacity = Number(document.body.dataset.capacity);
let fullAt = null; // when the bucket is whole again, in milliseconds since 1970, if nobody else asks

show(document.body.dataset.remaining, document.body.dataset.resetAfter);
setInterval(showRefill, 100);

byId('one').addEventListener('click', () => busy(async () => {
  const answer = await test();
  verdict(
    answer.allowed ? 'Allowed.' : `Denied. The same request passes in ${seconds(answer.retry_after)}.`,
    answer.allowed,
  );
}));

byId('burst').addEventListener('submit', (event) => {
  event.preventDefault();
  busy(async () => {
    const count = Number(byId('burst-size').value);
    let allowed = 0;
    // One after the other, so that the log reads in the order of the answers.
    for (let sent = 0; sent < count; sent += 1) {
      allowed += (await test()).allowed ? 1 : 0;
    }
    verdict(`${allowed} of ${count} allowed, ${count - allowed} denied.`, allowed === count);
  });
});

byId('policy').addEventListener('submit', (event) => {
  event.preventDefault();
  busy(async () => {
    const form = byId('policy');
    const { ok, answer } = await post('/config', Object.fromEntries(new FormData(form)));
    const said = byId('policy-said');
    said.textContent = ok ? 'Changed.' : sentence(answer.error);
    said.className = ok ? 'allowed' : 'denied';
    for (const input of form.querySelectorAll('input')) {
      // The sentence names the setting that is wrong, in PHP's spelling.
      const name = input.name.replace(/_(.)/, (_, letter) => letter.toUpperCase());
      const named = !ok && [name, input.name].some((start) => answer.error.startsWith(start));
      input.setAttribute('aria-invalid', String(named));
      if (ok) {
        input.value = answer.config[input.name];
      }
    }
    if (ok) {
      capacity = answer.limit;
      show(answer.remaining, answer.reset_after);
    }
  });
});

async function test() {
  const { ok, answer } = await post('/test');
  if (!ok) {
    throw new Error(answer.error);
  }
  capacity = answer.limit;
  show(answer.remaining, answer.reset_after);
  log(answer);
  return answer;
}

async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: body ? { 'Content-Type': 'application/json' } : {},
    body: body && JSON.stringify(body),
  });
  return { ok: response.ok, answer: await response.json() };
}

// Runs one action at a time, and says what went wrong where something does.
async function busy(action) {
  const buttons = document.querySelectorAll('button');
  const focused = document.activeElement;
  const problem = byId('problem');
  buttons.forEach((button) => { button.disabled = true; });
  problem.hidden = true;
  try {
    await action();
  } catch (error) {
    problem.textContent = error instanceof TypeError ? 'The server does not answer. Is the demo still running?' : sentence(error.message);
    problem.hidden = false;
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
    focused?.focus();
  }
}

function show(remaining, resetAfter) {
  if (remaining === undefined) {
    return;
  }
  fullAt = resetAfter > 0 ? Date.now() + resetAfter * 1000 : null;
  byId('remaining').textContent = remaining;
  byId('capacity-shown').textContent = capacity;
  const bar = byId('bar');
  bar.setAttribute('aria-valuemax', capacity);
  bar.setAttribute('aria-valuenow', remaining);
  bar.firstElementChild.style.width = `${Math.min(100, (100 * remaining) / capacity)}%`;
}

function showRefill() {
  const left = fullAt === null ? 0 : fullAt - Date.now();
  if (fullAt !== null && left <= 0) {
    show(capacity);
  }
  byId('refill').textContent = left > 0
    ? `As of the last answer. Full again in ${seconds(left / 1000)} if nobody asks.`
    : 'As of the last answer.';
}

function verdict(text, good) {
  const place = byId('verdict');
  place.textContent = text;
  place.className = `verdict ${good ? 'allowed' : 'denied'}`;
}

function log(answer) {
  const rows = byId('log');
  rows.querySelector('.empty')?.remove();
  const row = rows.insertRow(0);
  const status = answer.allowed ? 'allowed' : 'denied';
  const headers = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
  for (const text of [new Date().toLocaleTimeString('en-GB'), status, answer.remaining, headers.join('   ')]) {
    row.insertCell().textContent = text;
  }
  row.cells[1].className = status;
  while (rows.rows.length > LOG_ROWS) {
    rows.deleteRow(-1);
  }
}

function seconds(number) {
  return `${number.toFixed(number < 10 ? 1 : 0)} s`;
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
