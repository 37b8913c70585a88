package audit

import (
	"html/template"
	"io"
	"strings"
	"unicode"
)

// Page writes the report as one page of HTML that needs nothing else. Whoever
// shows it on a terminal shall not see what a server has named so.
func (r *Report) Page(w io.Writer) error {
	var text strings.Builder
	if err := page().Execute(&text, r); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' {
			return unicode.ReplacementChar
		}
		return c
	}, text.String()))
	return err
}

func page() *template.Template {
	return template.Must(template.New("audit").Funcs(template.FuncMap{
		"stamp":   stamp,
		"columns": func() []string { return columns },
		"cells":   (*Row).cells,
		"about":   func(f Finding) string { return f.about() },
		"class":   func(v Verdict) string { return strings.ReplaceAll(string(v), " ", "-") },
	}).Parse(pageText))
}

const pageText = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Audit {{with .Since}}{{if not .IsZero}}{{stamp .}}{{end}}{{end}}: {{.Verdict}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; width: 100%; font-size: 12px; }
.wide { overflow-x: auto; }
th, td { text-align: left; padding: .3em .45em; border-bottom: 1px solid #ccc; vertical-align: top; font-variant-numeric: tabular-nums; }
code { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.complete { color: #14532d; } .too-early { color: #7c4a03; } .hole { color: #9b1c1c; font-weight: bold; }
@page { size: landscape; }
@media print { body { margin: 0; max-width: none; } .wide { overflow: visible; } table, code { font-size: 9px; } th, td { padding: .2em .3em; } }
</style>
</head>
<body>
<main>
<h1>Audit: <span class="{{class .Verdict}}">{{.Verdict}}</span></h1>
<p>Events{{if and .Since.IsZero .Until.IsZero}} of any time{{end}}{{if not .Since.IsZero}} from {{stamp .Since}}{{end}}{{if not .Until.IsZero}} until before {{stamp .Until}}{{end}}.
Made at {{stamp .MadeAt}} by {{.Program}} {{.Release}}{{with .Instance}} as {{.}}{{end}}; exit status {{.Status}}.</p>
<h2>Accounts</h2>
<div class="wide"><table>
<thead><tr>{{range columns}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}<tr class="{{class .Verdict}}">{{range cells .}}<td>{{.}}</td>{{end}}</tr>
{{else}}<tr><td>none</td></tr>
{{end}}</tbody>
</table></div>
<h2>Findings</h2>
{{if .Findings}}<div class="wide"><table>
<thead><tr><th scope="col">verdict</th><th scope="col">kind</th><th scope="col">what</th><th scope="col">entries</th><th scope="col">text and cure</th></tr></thead>
<tbody>
{{range .Findings}}<tr><td class="{{class .Verdict}}">{{.Verdict}}</td><td>{{.Kind}}</td><td>{{about .}}</td><td>{{if .Entries}}{{.Entries}}{{end}}</td><td>{{.Text}}{{with .Command}}<br><code>{{.}}</code>{{end}}</td></tr>
{{end}}</tbody>
</table></div>{{else}}<p>None: every file that is offered was pulled, and every row of them is accounted for.</p>{{end}}
{{if .Notes}}<h2>Notes</h2>
<ul>
{{range .Notes}}<li>{{.}}</li>
{{end}}</ul>
{{end}}<h2>Inputs</h2>
<div class="wide"><table>
<thead><tr><th scope="col">what</th><th scope="col">name</th><th scope="col">bytes</th><th scope="col">SHA-256</th></tr></thead>
<tbody>
{{range .Inputs}}<tr><td>{{.What}}</td><td>{{.Name}}</td><td>{{.Bytes}}</td><td><code>{{.SHA256}}</code></td></tr>
{{end}}</tbody>
</table></div>
</main>
</body>
</html>
`
