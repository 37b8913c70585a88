package sobject

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
)

// store is a Big Object of n events, one a step of time, computed as they are
// asked for.
type store struct {
	n       int
	from    time.Time
	step    time.Duration
	now     time.Time
	queries int
}

func (s *store) Now() time.Time { return s.now }

func (s *store) at(i int) int64 { return s.from.Add(time.Duration(i) * s.step).UnixMilli() }

func (s *store) Get(context.Context, string) ([]byte, error) {
	return []byte(`{"name":"LoginEvent","fields":[{"name":"Id","type":"id"},{"name":"EventDate","type":"datetime"},{"name":"EventIdentifier","type":"string"}]}`), nil
}

var bounds = regexp.MustCompile(`EventDate >= (\S+) AND EventDate (<=?) (\S+) ORDER BY EventDate DESC LIMIT (\d+)`)

func (s *store) Query(_ context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	s.queries++
	return func(yield func(json.RawMessage, error) bool) {
		m := bounds.FindStringSubmatch(soql)
		if m == nil {
			yield(nil, fmt.Errorf("query %s", soql))
			return
		}
		lo, _ := time.Parse(time.RFC3339, m[1])
		hi, _ := time.Parse(time.RFC3339, m[3])
		limit, _ := strconv.Atoi(m[4])
		top := hi.UnixMilli()
		if m[2] == "<=" {
			top++
		}
		i := int(min(max((time.UnixMilli(top).Sub(s.from)+s.step-1)/s.step, 0), time.Duration(s.n)))
		for i--; i >= 0 && limit > 0 && s.at(i) >= lo.UnixMilli(); i-- {
			limit--
			if !yield(s.row(i), nil) {
				return
			}
		}
	}
}

func (s *store) row(i int) json.RawMessage {
	at := time.UnixMilli(s.at(i)).UTC().Format("2006-01-02T15:04:05.000")
	return fmt.Appendf(nil, `{"attributes":{"type":"LoginEvent","url":"/services/data/v62.0/sobjects/LoginEvent/000000000000000AAA"},"Id":"000000000000000AAA","EventDate":"%s+0000","EventIdentifier":"%s","Username":"ada.obi@example.com","SourceIp":"192.0.2.14","Status":"Success","LoginType":"Application","SessionKey":null,"LoginKey":"Lm8dr2wTy/nRcD4X","EvaluationTime":0,"AdditionalInfo":"{}","CountryIso":"GB","LoginLatitude":51.5,"LoginLongitude":-0.1}`, at, eventID(i))
}

func fakeConfig(t testing.TB, api API) Config {
	sh, err := shape.New(shape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		API: api, OrgID: "00Dxx0000001gPLEAY", Lookback: 24 * time.Hour, Settle: 5 * time.Minute, Overlap: 10 * time.Minute,
		Poll: 5 * time.Minute, Shape: sh, Resume: func(string) (string, bool) { return "", false },
		Output: outlet.Output{Records: func([]byte) error { return nil }, Now: time.Now}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func TestMillionRows(t *testing.T) { // #46: memory is bounded, the oldest leave first, each once
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	api := &store{n: n, now: start, from: start.Add(-23 * time.Hour), step: 22 * time.Hour / time.Duration(n)}
	cfg := fakeConfig(t, api)
	cfg.Objects = []Object{{Name: "LoginEvent", Big: true}}
	var high uint64
	rows, tokens := 0, 0
	last, blocks := "", 0
	cfg.Output.Records = func(text []byte) error {
		if blocks++; blocks%50 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			high = max(high, m.HeapAlloc)
		}
		for text := range bytes.SplitSeq(bytes.TrimSpace(text), []byte("\n")) {
			_, id, row := bytes.Cut(text, []byte(`,"origin":"5f`))
			if !row {
				tokens++
				continue
			}
			if string(id) <= last {
				t.Fatalf("%s after %s", id, last)
			}
			last = string(id)
			rows++
		}
		return nil
	}
	begin := time.Now()
	s := New(cfg)
	if err := s.Pull(context.Background()); err != nil {
		t.Fatal(err)
	}
	if rows != n || tokens < n/60_000 {
		t.Errorf("%d rows, %d accounts", rows, tokens)
	}
	t.Logf("%d rows in %v: %d queries, %d accounts, heap at most %d MiB", rows, time.Since(begin), api.queries, tokens, high>>20)
	if high > 64<<20 {
		t.Errorf("%d MiB of heap", high>>20)
	}
	if api.queries > n/most*4 {
		t.Errorf("%d queries", api.queries)
	}
}

// calls is an org without rows that notes when it is asked for which object.
type calls struct {
	mu   sync.Mutex
	made map[string][]time.Time
	err  map[string]error
}

func (c *calls) Now() time.Time { return time.Now() }

func (c *calls) Get(_ context.Context, path string) ([]byte, error) {
	return []byte(`{"fields":[{"name":"Id","type":"id"},{"name":"CreatedDate","type":"datetime"}]}`), nil
}

var from = regexp.MustCompile(`FROM (\w+) .*LIMIT 2000`)

func (c *calls) Query(_ context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if m := from.FindStringSubmatch(soql); m != nil {
		c.made[m[1]] = append(c.made[m[1]], time.Now())
		err = c.err[m[1]]
	}
	return func(yield func(json.RawMessage, error) bool) {
		if err != nil {
			yield(nil, err)
		}
	}
}

func (c *calls) number(object string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made[object])
}

func following(t *testing.T, api API, objects ...string) (*Source, func() error) {
	cfg := fakeConfig(t, api)
	cfg.Follow, cfg.Concurrency = true, 2
	for _, text := range objects {
		list, err := ParseObjects(text, time.ParseDuration)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Objects = append(cfg.Objects, list...)
	}
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Pull(ctx) }()
	return s, func() error { cancel(); return <-ended }
}

func TestSchedules(t *testing.T) { // #18
	synctest.Test(t, func(t *testing.T) {
		api := &calls{made: map[string][]time.Time{}}
		_, stop := following(t, api, "A", "B,poll=1h")
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if a, b := api.number("A"), api.number("B"); a < 11 || a > 13 || b < 1 || b > 2 {
			t.Errorf("%d and %d polls in an hour", a, b)
		}
		even := true
		for i := 2; i < len(api.made["A"]); i++ {
			even = even && api.made["A"][i].Sub(api.made["A"][i-1]) == api.made["A"][1].Sub(api.made["A"][0])
		}
		if even {
			t.Error("no jitter")
		}
		if err := stop(); err != context.Canceled {
			t.Error(err)
		}
	})
}

func refusal(kind salesforce.Kind) error {
	return &salesforce.Error{Op: "query", Kind: kind, Message: "no"}
}

func TestFollowThrottled(t *testing.T) { // one object's refusal for the org's limits holds all
	synctest.Test(t, func(t *testing.T) {
		api := &calls{made: map[string][]time.Time{}, err: map[string]error{"A": refusal(salesforce.KindLimitTotal)}}
		s, stop := following(t, api, "A,poll=20m", "B,poll=1m")
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if b := api.number("B"); b > 2 {
			t.Errorf("%d polls while the org has had enough", b)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s.Stats().Totals().Throttled < 2 {
			t.Errorf("%+v", s.Stats().Totals())
		}
		stop()
	})
}

func TestFollowRefused(t *testing.T) { // one object may be refused; all is the end
	synctest.Test(t, func(t *testing.T) {
		api := &calls{made: map[string][]time.Time{}, err: map[string]error{"A": refusal(salesforce.KindType)}}
		s, stop := following(t, api, "A", "B")
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if err := s.Stats().Ready(); err == nil || !strings.HasPrefix(err.Error(), "object A has failed for ") { // #17, peers 49
			t.Errorf("not ready because of: %v", err)
		}
		if a, b := api.number("A"), api.number("B"); a < 6 || b < 6 {
			t.Errorf("%d and %d polls", a, b)
		}
		api.mu.Lock()
		api.err["B"] = refusal(salesforce.KindPermission)
		api.mu.Unlock()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if err := stop(); salesforce.KindOf(err) == salesforce.KindOther {
			t.Errorf("it went on: %v", err)
		}
	})
}

func TestParseObjects(t *testing.T) {
	for text, want := range map[string]string{
		"LoginEvent":                     "[{LoginEvent  false 0s}]",
		"LoginEvent,big":                 "[{LoginEvent  true 0s}]",
		"A:B, C,big,poll=90s":            "[{A B false 0s} {C  true 1m30s}]",
		"Foo__c:When__c,poll=1h,Login_1": "[{Foo__c When__c false 1h0m0s} {Login_1  false 0s}]",
		"O'Brien":                        "", "A:": "", "A:b c": "", "": "", "big big": "", "A,poll=0s": "", "A,poll=x": "", "A,,B": "", "9a": "",
	} {
		got, err := ParseObjects(text, time.ParseDuration)
		if want == "" {
			if err == nil {
				t.Errorf("%q is accepted: %v", text, got)
			}
		} else if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q gives %v, %v", text, got, err)
		}
	}
	if CheckObjects(nil) == nil || CheckObjects([]Object{{Name: "A"}, {Name: "a"}}) == nil || CheckObjects([]Object{{Name: "EventLogFile"}}) == nil {
		t.Error("accepted")
	}
}
