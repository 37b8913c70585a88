package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// dashboard is one page of Grafana.
type dashboard struct {
	name  string // of the file; the uid has a prefix before it
	title string
	about string
	from  string // how far it looks back at first: "now-6h"
	rows  []row
}

func (d *dashboard) file() string { return d.name + ".json" }

// row is a heading with the panels below it.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. Width and height are in the units of Grafana's grid,
// which is 24 wide.
type panel struct {
	title   string
	about   string
	kind    kind
	unit    string
	width   int
	height  int
	limits  []step
	queries []query
}

type kind string

const (
	stat   kind = "stat"
	series kind = "timeseries"
	table  kind = "table"
	bars   kind = "bargauge"
	lines  kind = "logs"
)

// step is a colour from a value on.
type step struct {
	from  float64
	color string
}

// query is PromQL, or LogQL when it selects streams. ORG
// stands for the matcher of the variable org, which series without the label
// match too.
type query struct {
	expr   string
	legend string
}

const orgMatcher = `org=~"$org|"`

var orgWord = regexp.MustCompile(`\bORG\b`)

func (q *query) text() string { return orgWord.ReplaceAllLiteralString(q.expr, orgMatcher) }

// bare is a selector with no metric's name before it, which only LogQL has.
var bare = regexp.MustCompile(`(^|\W)\{`)

func (q *query) logql() bool { return bare.MatchString(q.expr) }

func (q *query) source() map[string]any {
	if q.logql() {
		return map[string]any{"type": "loki", "uid": "${ds_loki}"}
	}
	return map[string]any{"type": "prometheus", "uid": "${ds_prom}"}
}

// json is the dashboard as Grafana imports and provisions it.
func (d *dashboard) json() ([]byte, error) {
	panels, err := d.layout()
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.name, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(map[string]any{
		"uid": "sf2loki-" + d.name, "title": "sf2loki: " + d.title, "description": d.about, "tags": []string{"sf2loki", "salesforce"},
		"editable": true, "graphTooltip": 1, "id": nil, "refresh": "1m", "schemaVersion": 39, "timezone": "utc", "version": 1,
		"time":        map[string]any{"from": d.from, "to": "now"},
		"annotations": map[string]any{"list": []any{}},
		"links": []any{map[string]any{
			"type": "dashboards", "tags": []string{"sf2loki"}, "title": "sf2loki", "asDropdown": true, "includeVars": true, "keepTime": true, "icon": "external link",
		}},
		"templating": map[string]any{"list": d.variables()},
		"panels":     panels,
	})
	return out.Bytes(), err
}

// variables are those that the dashboard's queries need.
func (d *dashboard) variables() []any {
	source := func(name, label, kind string) any {
		return map[string]any{"name": name, "label": label, "type": "datasource", "query": kind, "current": map[string]any{}, "hide": 0, "refresh": 1, "regex": "", "options": []any{}}
	}
	list := []any{source("ds_prom", "Prometheus", "prometheus")}
	if d.hasLogs() {
		list = append(list, source("ds_loki", "Loki", "loki"))
	}
	return append(list, map[string]any{
		"name": "org", "label": "Org", "type": "query", "datasource": map[string]any{"type": "prometheus", "uid": "${ds_prom}"},
		"definition": "label_values(sf2loki_build_info, org)", "query": map[string]any{"query": "label_values(sf2loki_build_info, org)", "refId": "org"},
		"refresh": 2, "sort": 1, "regex": "", "hide": 0, "options": []any{},
		"multi": true, "includeAll": true, "allValue": ".*", "current": map[string]any{"text": []string{"All"}, "value": []string{"$__all"}},
	})
}

func (d *dashboard) hasLogs() bool {
	for _, r := range d.rows {
		for _, p := range r.panels {
			if p.queries[0].logql() {
				return true
			}
		}
	}
	return false
}

// layout gives every panel its place: from left to right, each heading on a
// line of its own.
func (d *dashboard) layout() ([]any, error) {
	var out []any
	x, y, tallest := 0, 0, 0
	newline := func() { x, y, tallest = 0, y+tallest, 0 }
	place := func(w, h int) map[string]any {
		if x+w > 24 {
			newline()
		}
		at := map[string]any{"x": x, "y": y, "w": w, "h": h}
		x, tallest = x+w, max(tallest, h)
		return at
	}
	for _, r := range d.rows {
		newline()
		out = append(out, map[string]any{
			"id": len(out) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []any{}, "gridPos": place(24, 1),
		})
		for i := range r.panels {
			p := &r.panels[i]
			if len(p.queries) == 0 {
				return nil, fmt.Errorf("panel %q has no query", p.title)
			}
			out = append(out, p.json(len(out)+1, place(p.size())))
		}
	}
	return out, nil
}

func (p *panel) size() (w, h int) {
	switch p.kind {
	case stat:
		w, h = 4, 4
	case lines:
		w, h = 24, 10
	default:
		w, h = 12, 8
	}
	if p.width > 0 {
		w = p.width
	}
	if p.height > 0 {
		h = p.height
	}
	return w, h
}

func (p *panel) json(id int, at map[string]any) map[string]any {
	out := map[string]any{
		"id": id, "type": string(p.kind), "title": p.title, "description": p.about, "gridPos": at,
		"datasource": p.queries[0].source(), "targets": p.targets(), "options": p.options(),
	}
	if p.kind == lines {
		return out
	}
	defaults := map[string]any{"unit": p.unit}
	if len(p.limits) > 0 {
		defaults["thresholds"] = map[string]any{"mode": "absolute", "steps": steps(p.limits)}
		defaults["color"] = map[string]any{"mode": "thresholds"}
	}
	if p.kind == series {
		defaults["custom"] = map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		defaults["color"] = map[string]any{"mode": "palette-classic"}
		defaults["min"] = 0
	}
	if p.kind == bars {
		defaults["min"], defaults["max"] = 0, 1
	}
	if p.kind == table {
		out["transformations"] = []any{map[string]any{"id": "organize", "options": map[string]any{
			"excludeByName": map[string]bool{"Time": true}, "indexByName": map[string]int{}, "renameByName": map[string]string{},
		}}}
	}
	out["fieldConfig"] = map[string]any{"defaults": defaults, "overrides": []any{}}
	return out
}

// steps are Grafana's thresholds, whose first one is from below everything.
func steps(limits []step) []any {
	list := []any{map[string]any{"color": limits[0].color, "value": nil}}
	for _, s := range limits[1:] {
		list = append(list, map[string]any{"color": s.color, "value": s.from})
	}
	return list
}

func (p *panel) targets() []any {
	var list []any
	for i := range p.queries {
		q := &p.queries[i]
		t := map[string]any{
			"refId": string(rune('A' + i)), "expr": q.text(), "legendFormat": q.legend, "datasource": q.source(), "editorMode": "code",
		}
		once := p.kind == table || p.kind == bars || p.kind == stat
		switch {
		case q.logql() && once:
			t["queryType"] = "instant"
		case q.logql():
			t["queryType"] = "range"
		default:
			t["instant"], t["range"] = once, !once
			if p.kind == table {
				t["format"] = "table"
			}
		}
		list = append(list, t)
	}
	return list
}

func (p *panel) options() map[string]any {
	reduce := map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.kind {
	case stat:
		mode := "none"
		if len(p.limits) > 0 {
			mode = "value"
		}
		return map[string]any{"reduceOptions": reduce, "colorMode": mode, "graphMode": "none", "textMode": "auto", "orientation": "auto", "justifyMode": "auto"}
	case bars:
		return map[string]any{"reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": true}
	case series:
		return map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	case lines:
		return map[string]any{
			"showTime": true, "showLabels": false, "wrapLogMessage": true, "prettifyLogMessage": false, "enableLogDetails": true,
			"sortOrder": "Descending", "dedupStrategy": "none",
		}
	}
	return map[string]any{"showHeader": true, "cellHeight": "sm"}
}
