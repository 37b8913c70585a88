package loki

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// modelLoki is Loki's judgement of a request, in memory: what it stores, and in
// which words it refuses. A script may answer in its place.
type modelLoki struct {
	maxLine  int
	maxAge   time.Duration
	window   time.Duration
	noMeta   bool // structured metadata is switched off
	poison   string
	script   func(n int, p *modelPush) *Answer // nil: Loki's own answer
	latency  time.Duration
	streams  int // most streams; 0: any number
	required string

	mu       sync.Mutex
	requests []*modelPush
	stored   map[string]int // labels, time, line, metadata: how often stored
	newest   map[string]int64
	busy     map[string]bool
	trouble  []string // what a client must never do
	inFlight int
	most     int
}

type modelPush struct {
	at      time.Time
	labels  string
	entries []modelEntry
	size    int
	answer  Answer
}

type modelEntry struct {
	time     int64
	line     string
	metadata string
	names    []string
}

func newModelLoki() *modelLoki {
	return &modelLoki{
		maxLine: 256 << 10, maxAge: 7 * 24 * time.Hour, window: time.Hour,
		stored: map[string]int{}, newest: map[string]int64{}, busy: map[string]bool{},
	}
}

func (m *modelLoki) Push(ctx context.Context, push []byte) Answer {
	p := decodePush(push)
	m.begin(p)
	defer m.end(p)
	if m.latency > 0 {
		select {
		case <-time.After(m.latency):
		case <-ctx.Done():
			return Answer{Err: ctx.Err()}
		}
	}
	m.mu.Lock()
	n := len(m.requests)
	m.mu.Unlock()
	if m.script != nil {
		if a := m.script(n, p); a != nil {
			if a.Status == hang {
				select {
				case <-time.After(30 * time.Second): // the client's own limit
					return Answer{Err: context.DeadlineExceeded}
				case <-ctx.Done():
					return Answer{Err: ctx.Err()}
				}
			}
			p.answer = *a
			return *a
		}
	}
	p.answer = m.store(p)
	return p.answer
}

// hang is a status for scripts: no answer before the client's time limit.
const hang = -1

func (m *modelLoki) begin(p *modelPush) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.at = time.Now()
	m.requests = append(m.requests, p)
	if m.busy[p.labels] {
		m.trouble = append(m.trouble, "two requests of one stream at a time")
	}
	if !slices.IsSortedFunc(p.entries, func(a, b modelEntry) int { return int(min(1, max(-1, a.time-b.time))) }) {
		m.trouble = append(m.trouble, "entries out of order")
	}
	if len(p.entries) == 0 {
		m.trouble = append(m.trouble, "a request without entries")
	}
	m.busy[p.labels] = true
	m.inFlight++
	m.most = max(m.most, m.inFlight)
}

func (m *modelLoki) end(p *modelPush) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy[p.labels] = false
	m.inFlight--
}

// store judges as Loki does: first the distributor's checks of each entry, then
// the ingester's window, whose text replaces the distributor's.
func (m *modelLoki) store(p *modelPush) Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.required != "" && !strings.Contains(p.labels, m.required+"=") {
		return textAnswer(400, fmt.Sprintf("missing required labels '%s' for user 'x' for stream '%s' (policy: '')", m.required, p.labels))
	}
	for _, e := range p.entries {
		if slices.Contains(e.names, "") {
			return textAnswer(500, "label name is empty")
		}
		if strings.Contains(e.line, "WHOLE500") {
			return textAnswer(500, "something is wrong with this")
		}
	}
	var passed []modelEntry
	refused := map[string]int{}
	for _, e := range p.entries {
		if text := m.refuse(p.labels, e); text != "" {
			refused[text]++
		} else {
			passed = append(passed, e)
		}
	}
	if _, known := m.newest[p.labels]; !known && m.streams > 0 && len(m.newest) >= m.streams && len(passed) > 0 {
		return textAnswer(429, fmt.Sprintf("maximum active stream limit exceeded when trying to create stream %s, reduce the number of active streams (reduce labels or reduce label values), or contact your Loki administrator to see if the limit can be increased, user: 'x'", p.labels))
	}
	var late []modelEntry
	for _, e := range passed {
		newest, known := m.newest[p.labels]
		if known && m.window > 0 && e.time < newest-int64(m.window) {
			late = append(late, e)
			continue
		}
		m.newest[p.labels] = max(newest, e.time)
		m.stored[storeKey(p.labels, e)]++
	}
	if len(late) > 0 {
		return textAnswer(400, m.lateText(p, late, len(passed)))
	}
	if len(refused) > 0 {
		return textAnswer(400, refusedText(refused))
	}
	return Answer{Status: 204}
}

func (m *modelLoki) lateText(p *modelPush, late []modelEntry, total int) string {
	var b strings.Builder
	oldest := time.Unix(0, m.newest[p.labels]-int64(m.window)).UTC().Format(time.RFC3339)
	for _, e := range late[:min(10, len(late))] {
		at := time.Unix(0, e.time).UTC()
		fmt.Fprintf(&b, "entry with timestamp %s ignored, reason: 'entry too far behind, entry timestamp is: %s, oldest acceptable timestamp is: %s',\n",
			at.Format("2006-01-02 15:04:05.999999999 -0700 MST"), at.Format(time.RFC3339), oldest)
	}
	fmt.Fprintf(&b, "user 'x', total ignored: %d out of %d for stream: %s", len(late), total, p.labels)
	return b.String()
}

func refusedText(refused map[string]int) string {
	texts := slices.Sorted(maps.Keys(refused))
	if len(texts) == 1 && refused[texts[0]] == 1 {
		return texts[0]
	}
	var parts []string
	for _, t := range texts {
		parts = append(parts, fmt.Sprintf("%d errors like: %s", refused[t], t))
	}
	return strings.Join(parts, "; ")
}

func (m *modelLoki) refuse(labels string, e modelEntry) string {
	now := time.Now()
	at := time.Unix(0, e.time).UTC().Format(time.RFC3339)
	switch {
	case m.maxAge > 0 && e.time < now.Add(-m.maxAge).UnixNano():
		return fmt.Sprintf("entry for stream '%s' has timestamp too old: %s, oldest acceptable timestamp is: %s", labels, at, now.Add(-m.maxAge).UTC().Format(time.RFC3339))
	case e.time > now.Add(10*time.Minute).UnixNano():
		return fmt.Sprintf("entry for stream '%s' has timestamp too new: %s", labels, at)
	case len(e.line) > m.maxLine:
		return fmt.Sprintf("max entry size '%d' bytes exceeded for stream '%s' while adding an entry with length '%d' bytes", m.maxLine, labels, len(e.line))
	case m.noMeta && e.metadata != "":
		return fmt.Sprintf("stream '%s' includes structured metadata, but this feature is disallowed. Please see `limits_config.allow_structured_metadata` or contact your Loki administrator to enable it", labels)
	case m.poison != "" && strings.Contains(e.line, m.poison):
		return fmt.Sprintf("entry for stream '%s' is not to my taste", labels)
	}
	return ""
}

func textAnswer(status int, text string) Answer {
	body := []byte(text + "\n")
	return Answer{Status: status, Body: body[:min(len(body), MaxBody)], ContentType: "text/plain; charset=utf-8"}
}

func storeKey(labels string, e modelEntry) string {
	return fmt.Sprintf("%s|%d|%s|%s", labels, e.time, e.line, e.metadata)
}

// lines are the distinct lines that are stored.
func (m *modelLoki) lines() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := map[string]bool{}
	for k := range m.stored {
		lines[strings.Split(k, "|")[2]] = true
	}
	return lines
}

func (m *modelLoki) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

func decodePush(b []byte) *modelPush {
	p := &modelPush{size: len(b)}
	modelField(b, func(_ protowire.Number, stream []byte) {
		modelField(stream, func(n protowire.Number, v []byte) {
			if n == 1 {
				p.labels = string(v)
			} else {
				p.entries = append(p.entries, decodeEntry(v))
			}
		})
	})
	return p
}

func decodeEntry(b []byte) modelEntry {
	var e modelEntry
	modelField(b, func(n protowire.Number, v []byte) {
		switch n {
		case 1:
			modelNumber(v, func(n protowire.Number, x uint64) {
				if n == 1 {
					e.time += int64(x) * 1e9
				} else {
					e.time += int64(x)
				}
			})
		case 2:
			e.line = string(v)
		case 3:
			name, value := "", ""
			modelField(v, func(n protowire.Number, v []byte) {
				if n == 1 {
					name = string(v)
				} else {
					value = string(v)
				}
			})
			e.names = append(e.names, name)
			e.metadata += name + "=" + value + ";"
		}
	})
	return e
}

func modelField(b []byte, fn func(protowire.Number, []byte)) {
	for len(b) > 0 {
		n, _, k := protowire.ConsumeTag(b)
		v, size := protowire.ConsumeBytes(b[k:])
		if k < 0 || size < 0 {
			panic("a request that is no protobuf")
		}
		fn(n, v)
		b = b[k+size:]
	}
}

func modelNumber(b []byte, fn func(protowire.Number, uint64)) {
	for len(b) > 0 {
		n, _, k := protowire.ConsumeTag(b)
		v, size := protowire.ConsumeVarint(b[k:])
		fn(n, v)
		b = b[k+size:]
	}
}
