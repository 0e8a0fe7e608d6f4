"""A diagnosis as one HTML page that needs nothing but itself: no script, no request, all texts escaped."""

from flows.diagnosis.record import Diagnosis, loss_lines, printable, summary_lines

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>graft diagnose: round {{ d.round }}</title>
<style>
:root { color-scheme: light dark; --line: #d0d7de; --dim: #59636e; --ok: #1a7f37; --warning: #9a6700; --flag: #cf222e;
  --bar: #0969da; --soft: #f6f8fa }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --dim: #9198a1; --ok: #3fb950; --warning: #d29922;
  --flag: #f85149; --bar: #4493f8; --soft: #151b23 } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem }
p.dim, .dim { color: var(--dim) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap }
td.name { white-space: pre }
.verdict { border-left: .4rem solid var(--dim); background: var(--soft); padding: .4rem .8rem; margin: .5rem 0 }
.verdict.ok { border-color: var(--ok) } .verdict.warning { border-color: var(--warning) }
.verdict.red { border-color: var(--flag) } .verdict.red b.level { color: var(--flag) }
meter { width: 12rem }
details { border-top: 1px solid var(--line); padding: .3rem 0 }
pre { background: var(--soft); padding: .5rem; white-space: pre-wrap }
.tokens { display: flex; flex-wrap: wrap; gap: .3rem; font-size: .75rem }
.tokens span { border: 1px solid var(--line); padding: .1rem .3rem }
.tokens b { display: block; font-family: ui-monospace, monospace; white-space: pre-wrap }
</style>
</head>
<body>
<h1>Diagnosis of one GRPO step</h1>
{% for line in lines %}<p>{{ line }}</p>
{% endfor %}
<h2>Verdicts</h2>
{% for v in d.verdicts %}
<div class="verdict {{ v.level.split()[0] }}">
<b class="level">{{ v.level }}{% if v.flag %}: {{ v.flag }}{% endif %}</b> · <b>{{ v.sign }}</b>: {{ v.value }}
<span class="dim">(healthy: {{ v.healthy }})</span><br>
{{ v.why | readable }}{% if v.remedy %} → <b>{{ v.remedy }}</b>{% endif %}
</div>
{% endfor %}
<h2>Performance, on the same prompts with the same seeds</h2>
<div class="wide"><table>
<tr><th>problem<th>greedy before<th>after<th>right of {{ d.samples }} before<th>after</tr>
{% for a in d.problems %}
<tr><td>{{ a.problem_id }}
{%- for right in a.greedy %}<td>{{ "–" if right is none else "right" if right else "wrong" }}{% endfor %}
{%- for right in a.right %}<td>{{ "–" if right is none else right }}{% endfor %}</tr>
{% endfor %}
<tr><th>all
{%- for score in (d.before, d.after) %}<th>{{ "%.2f" % score.greedy_share if score else "–" }}{% endfor %}
{%- for score in (d.before, d.after) %}<th>{{ "%.3f" % score.sampled_share if score else "–" }}{% endfor %}</tr>
</table></div>
{% if loss %}
<h2>Loss and gradient</h2>
<div class="wide"><table>
<tr><th>of the samples learned from<th>before<th>after the step</tr>
{% for name, before, after in loss %}<tr><td class="name">{{ name }}<td>{{ before }}<td>{{ after }}</tr>
{% endfor %}
</table></div>
<h2>Gradient norm by layer</h2>
<div class="wide"><table>
{% for layer, norm in d.step.before.layers.items() %}
<tr><td>{{ layer }}<td>{{ "%.4f" % norm }}<td><meter max="{{ '%.6g' % most }}" value="{{ '%.6g' % norm }}"></meter></tr>
{% endfor %}
</table></div>
{% endif %}
<h2>Problems</h2>
{% for a in d.problems %}
<h3>{{ a.problem_id }}</h3>
<p>{{ a.question | readable }} <span class="dim">Answer: {{ a.answer }}.
Group mean {{ a.mean | number }}, standard deviation {{ a.std | number }}.</span></p>
{% for c in a.completions %}
<details>
<summary>× {{ c.count }} · reward {{ "failed" if c.reward is none else "%.3f" % c.reward }} · advantage
{{ "%+.3f" % c.advantage }}{{ "" if c.learned == c.advantage else ", learned as %.3g" % (c.learned + 0.0) }}
<span class="dim">· log p {{ "%.2f" % c.logprob }}, reference {{ "%.2f" % c.reference }}</span></summary>
<pre>{{ c.code | readable("\n") }}</pre>
<p>Gave {{ c.result | readable }}{% if c.cut %}; cut at its length limit{% endif %}. Baseline {{ c.baseline | number }}.
{%- for name, value in c.terms.items() %} {{ name }} {{ value | number }}{{ "" if loop.last else "," }}{% endfor %}</p>
<p class="dim">Each token with its log-probability under the policy and under the reference:</p>
<div class="tokens">
{%- for t in c.tokens %}
<span><b>{{ t.text | readable }}</b>{{ "%.3f" % t.policy }}<br>{{ "%.3f" % t.reference }}</span>{% endfor %}
</div>
</details>
{% endfor %}
{% endfor %}
<h2>Params</h2>
<div class="wide"><table>
{% for name, value in d.knobs.items() %}<tr><td>{{ name }}<td>{{ value }}</tr>
{% endfor %}
</table></div>
</body>
</html>
"""


def page_of(diagnosis: Diagnosis) -> str:
    """The whole page; the same diagnosis gives the same text."""
    from jinja2 import Environment, StrictUndefined

    templates = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"number": _number, "readable": printable}
    layers = diagnosis.step.before.layers.values()
    return templates.from_string(PAGE).render(
        d=diagnosis,
        lines=[printable(line) for line in summary_lines(diagnosis)],
        loss=loss_lines(diagnosis.step),
        most=max(layers, default=0.0) or 1.0,
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
