package lokitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
)

func TestScript(t *testing.T) {
	h := start(t, faithful)
	var seen []Request
	answers := []*Answer{
		{Status: 503, Body: "busy", Header: http.Header{"Retry-After": {"7"}}},
		nil,
		{Status: 500, Body: "stored, and yet", Store: true},
		{Reset: true},
		{Reset: true, Store: true},
		{Status: 500, Body: "half", Cut: true},
		{Store: true},
		{},
		{Status: 200, Body: "<html>", Header: http.Header{"Content-Type": {"text/html"}}},
	}
	h.Script(func(n int, req Request) *Answer {
		seen = append(seen, req)
		return answers[n]
	})
	var got []string
	for i := range answers {
		req, _ := http.NewRequest("POST", h.URL+pushPath, strings.NewReader(string(snappy.Encode(nil, encodeStream(`{app="a"}`, in{0, fmt.Sprint(i), nil})))))
		req.Header.Set("Content-Type", "application/x-protobuf")
		res, err := h.Client().Do(req)
		if err != nil {
			got = append(got, "error")
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		got = append(got, fmt.Sprintf("%d %s %q %v", res.StatusCode, res.Header.Get("Retry-After"), b, err))
	}
	want := []string{
		`503 7 "busy\n" <nil>`, `204  "" <nil>`, `500  "stored, and yet\n" <nil>`, "error", "error", `500  "half\n" unexpected EOF`,
		`204  "" <nil>`, `204  "" <nil>`, `200  "<html>" <nil>`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	h.holds("1,2,4,6")
	log := h.Requests()
	var statuses []int
	for i, r := range log {
		statuses = append(statuses, r.Status)
		if r.N != i || r.Tenant != "fake" || len(r.Streams) != 1 || r.Streams[0].Labels != `{app="a"}` || r.Streams[0].Entries[0].Line != fmt.Sprint(i) || r.Size == 0 || len(r.Body) == 0 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if want := []int{503, 204, 500, 0, 0, 500, 204, 204, 200}; !slices.Equal(statuses, want) || len(seen) != len(want) {
		t.Errorf("statuses %v", statuses)
	}
	if s := h.Stats(); s.Requests != 9 || s.Stored != 4 || s.Received != 9 || s.Statuses[204] != 3 || s.Statuses[0] != 2 || s.MaxInFlight != 1 || s.LineBytes != 4 {
		t.Errorf("%+v", s)
	}
}

func TestScriptHang(t *testing.T) {
	h := start(t, faithful)
	h.Script(func(int, Request) *Answer { return &Answer{Hang: true, Store: true} })
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", h.URL+pushPath, strings.NewReader(string(snappy.Encode(nil, encodeStream(`{app="a"}`, in{0, "x", nil})))))
	req.Header.Set("Content-Type", "application/x-protobuf")
	failed := make(chan error, 1)
	go func() {
		_, err := h.Client().Do(req)
		failed <- err
	}()
	for h.Stats().Stored == 0 {
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case err := <-failed:
		t.Fatalf("answered: %v", err)
	default:
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("answered")
	}
}

// The counters of what is in flight.
func TestInFlight(t *testing.T) {
	h := start(t, faithful)
	var arrived sync.WaitGroup
	arrived.Add(3)
	h.Script(func(int, Request) *Answer {
		arrived.Done()
		arrived.Wait()
		return nil
	})
	var wg sync.WaitGroup
	for _, app := range []string{"a", "a", "b"} {
		wg.Go(func() { h.push(encodeStream(`{app="`+app+`"}`, in{0, "x", nil})) })
	}
	wg.Wait()
	if s := h.Stats(); s.MaxInFlight != 3 || s.MaxInFlightPerStream != 2 {
		t.Errorf("%+v", s)
	}
}

func TestRefuse(t *testing.T) {
	s := NewServer(Config{Now: func() time.Time { return now }, Limits: Plain, Refuse: func(e Entry) string {
		if strings.Contains(e.Line, "evil") {
			return "entry for stream '" + e.Stream + "' is evil"
		}
		return ""
	}})
	t.Cleanup(s.Close)
	harness{s, t}.expect(400, `entry for stream '{app="a"}' is evil`, "a,b", encodeStream(`{app="a"}`, in{2, "a", nil}, in{1, "evil", nil}, in{0, "b", nil}))
}

func TestForget(t *testing.T) {
	s := NewServer(Config{Now: func() time.Time { return now }, Limits: Plain, Forget: true})
	t.Cleanup(s.Close)
	h := harness{s, t}
	h.expect(204, "", "", encodeStream(`{app="a"}`, in{0, "a", nil}))
	h.push(encodeStream(`{app="a"}`, in{0, "abc", nil}))
	if st := s.Stats(); st.Stored != 2 || st.LineBytes != 4 || len(s.Requests()) != 0 {
		t.Errorf("%+v", st)
	}
}

func get(t *testing.T, h harness, path string, query ...string) (int, string) {
	t.Helper()
	v := url.Values{}
	for i := 0; i < len(query); i += 2 {
		v.Set(query[i], query[i+1])
	}
	res, err := h.Client().Get(h.URL + path + "?" + v.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestQuery(t *testing.T) {
	h := start(t, func(l *Limits) { Plain("", l) })
	h.push(encodeStream(`{app="a",env="x"}`, in{3, "one", nil}, in{2, "two", []Label{{"level", "info"}, {"app", "m"}}}))
	h.push(encodeStream(`{app="b"}`, in{1, "three", nil}))
	nanos := func(ago int64) string { return fmt.Sprint(now.UnixNano() - ago) }
	for _, tc := range []struct {
		name  string
		query []string
		want  string
	}{
		{"all of a stream, newest first", []string{"query", `{app="a"}`},
			`[{"stream":{"app":"a","app_extracted":"m","env":"x","level":"info"},"values":[["` + nanos(2) + `","two"]]},{"stream":{"app":"a","env":"x"},"values":[["` + nanos(3) + `","one"]]}]`},
		{"forward", []string{"query", `{app=~"a|b", env!="y"} |= "e"`, "direction", "forward"},
			`[{"stream":{"app":"a","env":"x"},"values":[["` + nanos(3) + `","one"]]},{"stream":{"app":"b"},"values":[["` + nanos(1) + `","three"]]}]`},
		{"limit", []string{"query", `{app!~"z.*"}`, "limit", "1"}, `[{"stream":{"app":"b"},"values":[["` + nanos(1) + `","three"]]}]`},
		{"window", []string{"query", "{app=~`.+`}", "start", nanos(3), "end", nanos(2)}, `[{"stream":{"app":"a","env":"x"},"values":[["` + nanos(3) + `","one"]]}]`},
		{"filters", []string{"query", `{app=~".+"} != "two" |~ "^t" !~ "x"`}, `[{"stream":{"app":"b"},"values":[["` + nanos(1) + `","three"]]}]`},
		{"nothing", []string{"query", `{app="none"}`}, `[]`},
	} {
		status, body := get(t, h, "/loki/api/v1/query_range", tc.query...)
		want := `{"data":{"result":` + tc.want + `,"resultType":"streams","stats":{}},"status":"success"}` + "\n"
		if status != 200 || body != want {
			t.Errorf("%s: %d\ngot  %s\nwant %s", tc.name, status, body, want)
		}
	}
	for _, bad := range []string{"", "app", `{app}`, `{app="a"} | json`, `{app=~"("}`} {
		if status, _ := get(t, h, "/loki/api/v1/query_range", "query", bad); status != 400 {
			t.Errorf("%q: %d", bad, status)
		}
	}
	for query, want := range map[string]string{
		`sum by (app) (count_over_time({app=~".+"}[1h]))`: `[{"metric":{"app":"a"},"value":[T,"2"]},{"metric":{"app":"b"},"value":[T,"1"]}]`,
		`sum(count_over_time({app=~".+"}[1h]))`:           `[{"metric":{},"value":[T,"3"]}]`,
		`count_over_time({app="b"} |= "three" [7d])`:      `[{"metric":{"app":"b"},"value":[T,"1"]}]`,
		`sum(count_over_time({app="none"}[1h]))`:          `[]`,
	} {
		status, body := get(t, h, "/loki/api/v1/query", "query", query)
		var v struct {
			Data struct{ Result json.RawMessage }
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v in %s", query, err, body)
		}
		stamp, _ := json.Marshal(float64(now.UnixNano()) / 1e9)
		if got := strings.ReplaceAll(string(v.Data.Result), string(stamp), "T"); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", query, status, got, want)
		}
	}
	h.push(encodeStream(`{"a.b"="x"}`, in{0, "trap", nil}))
	if status, body := get(t, h, "/loki/api/v1/query_range", "query", `{app="a"}`); status != 500 || body != "could not write JSON response: 1:3: parse error: unexpected character inside braces: '.'\n" {
		t.Errorf("%d %s", status, body)
	}
}

func TestMetrics(t *testing.T) {
	h := start(t, faithful)
	h.push(encodeStream(`{app="a"}`, in{-time.Hour, "n", nil}, in{0, "a", nil}))
	_, body := get(t, h, "/metrics")
	for _, want := range []string{
		`loki_discarded_samples_total{format="",policy="",reason="too_far_in_future",retention_hours="",tenant="fake"} 1` + "\n",
		"loki_distributor_lines_received_total 2\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}
