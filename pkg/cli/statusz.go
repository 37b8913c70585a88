package cli

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "embed"
)

// serveStatus serves the status snapshot: as JSON, or as a page to a client
// that asks for HTML, as browsers do. ?format=json and ?format=html win.
func (app *App) serveStatus(w http.ResponseWriter, r *http.Request) {
	b, err := app.snapshot()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !wantsHTML(r) {
		h.Set("Content-Type", "application/json")
		w.Write(b)
		return
	}
	page, err := statusPage(b)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Write(page)
}

// wantsHTML tells whether the client names text/html and likes it better than
// JSON. One that takes anything gets JSON.
func wantsHTML(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return false
	case "html":
		return true
	}
	var page, data float64
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/html", "application/xhtml+xml":
			page = max(page, quality(params))
		case "application/json":
			data = max(data, quality(params))
		}
	}
	return page > data
}

// quality is the q of a media range.
func quality(params string) float64 {
	for _, p := range strings.Split(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0
		}
		return q
	}
	return 1
}

//go:embed statusz.css
var statusCSS string

// page is a page that is being written. Text gets in by text alone.
type page struct {
	b   strings.Builder
	now time.Time // ages are reckoned from it
}

func (p *page) raw(s string)  { p.b.WriteString(s) }
func (p *page) text(s string) { p.b.WriteString(html.EscapeString(s)) }

// element writes text in an element, whose tag may have attributes.
func (p *page) element(tag, text string) {
	name, _, _ := strings.Cut(tag, " ")
	p.raw("<" + tag + ">")
	p.text(text)
	p.raw("</" + name + ">")
}

// statusPage shows what the snapshot b holds. It is readable without styles,
// and has no scripts.
func statusPage(b []byte) ([]byte, error) {
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("status page: %w", err)
	}
	all, err := parseNode(b)
	if err != nil {
		return nil, fmt.Errorf("status page: %w", err)
	}
	p := &page{now: s.At}
	p.head(&s)
	if status := all.field("status"); status != nil {
		p.section("status", status, 2)
	}
	p.raw("</main>\n</body>\n</html>\n")
	return []byte(p.b.String()), nil
}

// head is all of the page that every program has.
func (p *page) head(s *snapshot) {
	title := s.Program
	if s.Instance != "" {
		title += " on " + s.Instance
	}
	p.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	p.element("title", title)
	p.raw("\n<style>" + statusCSS + "</style>\n</head>\n<body>\n<header>\n")
	p.element("h1", title)
	if s.Ready {
		p.element(`p class="ready"`, "Ready")
	} else {
		p.element(`p class="waiting"`, "Not ready: "+s.NotReady)
	}
	p.raw("\n<nav><a href=\"?format=json\">JSON</a> <a href=\"metrics\">metrics</a> <a href=\"readyz\">readyz</a> <a href=\"healthz\">healthz</a></nav>\n</header>\n<main>\n<dl>")
	for _, fact := range [][2]string{
		{"Version", s.Version}, {"Run", s.RunID}, {"Started", moment(s.Start, s.At)}, {"As of", moment(s.At, s.At)},
	} {
		p.element("dt", fact[0])
		p.element("dd", fact[1])
	}
	p.raw("</dl>\n")
}

// section shows one value under a heading of its own: the plain fields of an
// object as one table, then each of the others as a section.
func (p *page) section(name string, n *node, level int) {
	p.element("h"+strconv.Itoa(min(level, 6)), label(name))
	p.raw("\n")
	switch {
	case n.kind == array && n.holds(object):
		p.rows(n)
	case n.kind != object:
		p.element("p", p.inline(name, n))
		p.raw("\n")
	case len(n.items) == 0:
		p.element("p", "none")
		p.raw("\n")
	case n.holds(object) && !n.holds(scalar) && !n.holds(array):
		p.rows(n)
	default:
		p.fields(n, level)
		for i, item := range n.items {
			if item.kind != scalar {
				p.section(n.keys[i], item, level+1)
			}
		}
	}
}

// fields is the table of an object's plain values. Further down these are
// mostly counts by reason or by name, and stand as they are.
func (p *page) fields(n *node, level int) {
	if !n.holds(scalar) {
		return
	}
	p.raw("<table>\n")
	for i, item := range n.items {
		if item.kind == scalar {
			name := n.keys[i]
			if level == 2 {
				name = label(name)
			}
			p.raw("<tr>")
			p.element(`th scope="row"`, name)
			p.element("td", p.inline(n.keys[i], item))
			p.raw("</tr>\n")
		}
	}
	p.raw("</table>\n")
}

// rows is the table of the objects in an array, or in an object, where each
// row begins with its key.
func (p *page) rows(n *node) {
	var columns []string
	seen := map[string]bool{}
	for _, item := range n.items {
		for _, key := range item.keys {
			if !seen[key] {
				seen[key] = true
				columns = append(columns, key)
			}
		}
	}
	p.raw("<div><table>\n<thead><tr>")
	if n.kind == object {
		p.raw("<td></td>")
	}
	for _, c := range columns {
		p.element(`th scope="col"`, label(c))
	}
	p.raw("</tr></thead>\n<tbody>\n")
	for i, item := range n.items {
		p.raw("<tr>")
		if n.kind == object {
			p.element(`th scope="row"`, n.keys[i])
		}
		for _, c := range columns {
			p.cell(c, item.field(c))
		}
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table></div>\n")
}

func (p *page) cell(name string, n *node) {
	switch {
	case n == nil:
		p.raw("<td></td>")
	case n.number() && !isMoment(name):
		p.element(`td class="n"`, p.inline(name, n))
	default:
		p.element("td", p.inline(name, n))
	}
}

// inline is a value as text.
func (p *page) inline(name string, n *node) string {
	switch n.kind {
	case scalar:
		return p.show(name, n.value)
	case array, object:
		if len(n.items) == 0 {
			return "none"
		}
	}
	var parts []string
	for i, item := range n.items {
		part := p.inline(name, item)
		if n.kind == object {
			part = n.keys[i] + " " + p.inline(n.keys[i], item)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
