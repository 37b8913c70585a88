package lokitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entries returns what the server holds of a tenant, sorted by stream, time
// and order of arrival. The tenant is "fake" when there is only one.
func (s *Server) Entries(tenant string) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		return nil
	}
	names := make([]string, 0, len(t.streams))
	for name := range t.streams {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []Entry
	for _, name := range names {
		entries := slices.Clone(t.streams[name].entries)
		slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Nanos, b.Nanos) })
		all = append(all, entries...)
	}
	return all
}

// selection is the part of LogQL that is understood: a selector of streams and
// filters of lines.
type selection struct {
	matchers []matcher
	filters  []matcher // name is empty
}

type matcher struct {
	name, op, value string
	expr            *regexp.Regexp
}

func (m *matcher) matches(s string) bool {
	switch m.op {
	case "=":
		return s == m.value
	case "!=":
		if m.name == "" {
			return !strings.Contains(s, m.value)
		}
		return s != m.value
	case "|=":
		return strings.Contains(s, m.value)
	case "=~", "|~":
		return m.expr.MatchString(s)
	}
	return !m.expr.MatchString(s)
}

var (
	selector    = regexp.MustCompile(`^\s*\{((?:[^"}` + "`" + `]|"(?:[^"\\]|\\.)*"|` + "`[^`]*`" + `)*)\}`)
	labelClause = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|` + "`[^`]*`" + `)\s*,?`)
	lineClause  = regexp.MustCompile(`^\s*(\|=|!=|\|~|!~)\s*("(?:[^"\\]|\\.)*"|` + "`[^`]*`" + `)`)
)

func parseSelection(query string) (sel selection, rest string, err error) {
	m := selector.FindStringSubmatch(query)
	if m == nil {
		return sel, "", fmt.Errorf("parse error: %q does not begin with a stream selector", query)
	}
	rest = query[len(m[0]):]
	for body := m[1]; strings.TrimSpace(body) != ""; {
		c := labelClause.FindStringSubmatch(body)
		if c == nil {
			return sel, "", fmt.Errorf("parse error in the stream selector at %q", body)
		}
		one, err := newMatcher(c[1], c[2], c[3])
		if err != nil {
			return sel, "", err
		}
		sel.matchers = append(sel.matchers, one)
		body = body[len(c[0]):]
	}
	for {
		c := lineClause.FindStringSubmatch(rest)
		if c == nil {
			return sel, rest, nil
		}
		one, err := newMatcher("", c[1], c[2])
		if err != nil {
			return sel, "", err
		}
		sel.filters = append(sel.filters, one)
		rest = rest[len(c[0]):]
	}
}

func newMatcher(name, op, quoted string) (matcher, error) {
	value, err := strconv.Unquote(quoted)
	if err != nil {
		return matcher{}, fmt.Errorf("parse error: string %s: %w", quoted, err)
	}
	m := matcher{name: name, op: op, value: value}
	if strings.HasSuffix(op, "~") {
		expr := value
		if name != "" {
			expr = "^(?:" + value + ")$"
		}
		if m.expr, err = regexp.Compile(expr); err != nil {
			return matcher{}, fmt.Errorf("parse error: %w", err)
		}
	}
	return m, nil
}

func (sel *selection) takes(e *Entry) bool {
	for i := range sel.matchers {
		if m := &sel.matchers[i]; !m.matches(value(e.Labels, m.name)) {
			return false
		}
	}
	for i := range sel.filters {
		if !sel.filters[i].matches(e.Line) {
			return false
		}
	}
	return true
}

func value(labels []Label, name string) string {
	for _, l := range labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// queried answers the entries that a request asks for, or the error for it.
func (s *Server) queried(r *http.Request, sel selection, from, to int64) ([]Entry, *refusal) {
	tenant, refused := s.tenantOf(r)
	if refused != nil {
		return nil, refused
	}
	all := s.Entries(tenant)
	for i := range all {
		for _, l := range all[i].Labels {
			if !isLabelName(l.Name) { // accepted, and never to be read again
				_, err := (&labelParser{s: "{" + l.Name + "}"}).parse()
				return nil, refuse(http.StatusInternalServerError, "could not write JSON response: %v", err)
			}
		}
	}
	return slices.DeleteFunc(all, func(e Entry) bool { return e.Nanos < from || e.Nanos >= to || !sel.takes(&e) }), nil
}

type streamResult struct {
	Stream map[string]string `json:"stream"`
	Values [][2]string       `json:"values"`
}

// serveQueryRange lists entries. Unlike Loki it begins at the oldest when no
// start is given.
func (s *Server) serveQueryRange(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err1 := queryTime(q.Get("start"), -1<<63)
	to, err2 := queryTime(q.Get("end"), 1<<63-1)
	limit, err3 := strconv.Atoi(cmp.Or(q.Get("limit"), "100"))
	sel, rest, err4 := parseSelection(q.Get("query"))
	if err := cmp.Or(err1, err2, err3, err4); err != nil || strings.TrimSpace(rest) != "" {
		http.Error(w, fmt.Sprint(cmp.Or(err, fmt.Errorf("parse error at %q", rest))), http.StatusBadRequest)
		return
	}
	entries, refused := s.queried(r, sel, from, to)
	if refused != nil {
		http.Error(w, refused.text, refused.status)
		return
	}
	forward := q.Get("direction") == "forward"
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if forward {
			return cmp.Compare(a.Nanos, b.Nanos)
		}
		return cmp.Compare(b.Nanos, a.Nanos)
	})
	writeResult(w, "streams", byLabels(entries[:min(limit, len(entries))]))
}

// byLabels groups entries by their labels and metadata: Loki shows both alike.
func byLabels(entries []Entry) []streamResult {
	result := []streamResult{}
	index := map[string]int{}
	for i := range entries {
		e := &entries[i]
		labels := shown(e)
		key := fmt.Sprint(labels)
		if _, ok := index[key]; !ok {
			index[key] = len(result)
			result = append(result, streamResult{Stream: labels})
		}
		r := &result[index[key]]
		r.Values = append(r.Values, [2]string{strconv.FormatInt(e.Nanos, 10), e.Line})
	}
	return result
}

// shown is what a query shows of an entry besides its line.
func shown(e *Entry) map[string]string {
	labels := map[string]string{}
	for _, l := range e.Labels {
		labels[l.Name] = l.Value
	}
	for _, l := range e.Metadata {
		name := l.Name
		if value(e.Labels, name) != "" {
			name += "_extracted"
		}
		labels[name] = l.Value
	}
	return labels
}

var counting = regexp.MustCompile(`^\s*(?:sum(?:\s+by\s*\(([^)]*)\))?\s*\(\s*)?count_over_time\s*\(`)

type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// serveQuery counts: count_over_time({...}[1h]), alone or inside sum or
// sum by (...).
func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("query")
	m := counting.FindStringSubmatch(query)
	now, err := queryTime(r.URL.Query().Get("time"), s.config.Now().UnixNano())
	if m == nil || err != nil {
		http.Error(w, fmt.Sprintf("parse error: %q counts nothing", query), http.StatusBadRequest)
		return
	}
	sel, rest, err := parseSelection(query[len(m[0]):])
	var span time.Duration
	if err == nil {
		span, err = parseSpan(strings.TrimLeft(rest, " "))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	entries, refused := s.queried(r, sel, now-int64(span)+1, now+1)
	if refused != nil {
		http.Error(w, refused.text, refused.status)
		return
	}
	writeResult(w, "vector", count(entries, m[1], strings.Contains(m[0], "sum"), now))
}

func count(entries []Entry, by string, sum bool, now int64) []sample {
	kept := strings.FieldsFunc(by, func(r rune) bool { return r == ',' || r == ' ' })
	result := []sample{}
	index := map[string]int{}
	counts := []int{}
	for i := range entries {
		labels := shown(&entries[i])
		if sum {
			maps.DeleteFunc(labels, func(name, _ string) bool { return !slices.Contains(kept, name) })
		}
		key := fmt.Sprint(labels)
		if _, ok := index[key]; !ok {
			index[key] = len(result)
			result = append(result, sample{Metric: labels})
			counts = append(counts, 0)
		}
		counts[index[key]]++
	}
	for i, n := range counts {
		result[i].Value = [2]any{float64(now) / 1e9, strconv.Itoa(n)}
	}
	return result
}

// parseSpan reads [1h], [7d] and the like.
func parseSpan(s string) (time.Duration, error) {
	m := regexp.MustCompile(`^\[(\d+)([smhdwy])\]`).FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("parse error: no range at %q", s)
	}
	n, err := strconv.Atoi(m[1])
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour}
	return time.Duration(n) * unit[m[2]], err
}

// queryTime reads nanoseconds, seconds or RFC 3339.
func queryTime(s string, otherwise int64) (int64, error) {
	if s == "" {
		return otherwise, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UnixNano(), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if len(s) <= 10 {
			return n * 1e9, nil
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	return int64(f * 1e9), err
}

func writeResult(w http.ResponseWriter, kind string, result any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result, "stats": map[string]any{}}})
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emptyRing {
		http.Error(w, "Some services are not Running:\nRunning: 12\nStarting: 5", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ready\n"))
}

func (s *Server) serveBuildInfo(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"version":"","revision":"","branch":"","buildUser":"","buildDate":"","goVersion":""}` + "\n"))
}

// serveMetrics serves the two families that tell of what the answers hide.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	lines := []string{}
	for d, n := range s.metrics {
		lines = append(lines, fmt.Sprintf("loki_discarded_samples_total{format=\"\",policy=\"\",reason=%q,retention_hours=\"\",tenant=%q} %d\n", d.reason, d.tenant, n))
	}
	slices.Sort(lines)
	fmt.Fprintf(w, "# HELP loki_discarded_samples_total The total number of samples that were discarded.\n# TYPE loki_discarded_samples_total counter\n%s", strings.Join(lines, ""))
	fmt.Fprintf(w, "# HELP loki_distributor_lines_received_total The total number of lines received.\n# TYPE loki_distributor_lines_received_total counter\n"+
		"loki_distributor_lines_received_total %d\n", s.stats.Received)
}
