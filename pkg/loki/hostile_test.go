package loki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// A status that no process can have must not become 0 in its lowest bits.
func TestImpossibleStatusOfTheInput(t *testing.T) {
	for _, status := range []int{256, -256, 1 << 32} {
		bubble(t, func(t *testing.T, tr *trial) {
			fmt.Fprintf(&tr.input, `{"checkpoint_only":true,"run":{"program":"p","run_id":"r","status":%d}}`+"\n", status)
			tr.run(context.Background(), &tr.input)
			if tr.code() != sysexits.Software {
				t.Errorf("status %d ends with %d: %v", status, tr.code(), tr.err)
			}
		})
	}
}

// One record with very many labels costs one dead letter, and no more time than
// its reading.
func TestVeryManyLabels(t *testing.T) {
	const n = 200_000
	many := numbered(n)
	var l Limits
	if p := l.CheckLabels(many); p != nil {
		t.Errorf("without limits: %+v", p)
	}
	many[n-1].Name = many[0].Name
	wantProblem(t, l.CheckLabels(many), record.InvalidLabels, `"n0" is there twice`)

	for _, allow := range [][]string{nil, {"n1"}} {
		bubble(t, func(t *testing.T, tr *trial) {
			tr.cfg.AllowLabels = allow
			fmt.Fprintf(&tr.input, `{"ts_unix_nano":%d,"line":"x","labels":{"source":"s"`, time.Now().UnixNano())
			for i := range n {
				fmt.Fprintf(&tr.input, `,"n%d":"v"`, i)
			}
			tr.input.WriteString("}}\n")
			tr.run(context.Background(), &tr.input)
			want := record.InvalidLabels
			if allow != nil {
				want = record.MetadataTooMany
			}
			if tr.err != nil || tr.reasons()[want] != 1 {
				t.Errorf("--allow-label %v: %v, letters %v", allow, tr.err, tr.reasons())
			}
		})
	}
}

// Names of any length are not remembered, and all that have one share an account.
func TestVeryLongLabelsAreNotKept(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Push = tr.loki
		e, err := NewEngine(tr.cfg)
		if err != nil {
			t.Fatal(err)
		}
		long := bytes.Repeat([]byte("x"), largeSet)
		for i := range 10 {
			e.labels.get(e, []record.Pair{{Name: []byte("event_type"), Value: append(long, byte('0'+i))}})
		}
		e.labels.get(e, pairs("event_type", "Login"))
		if len(e.labels.sets) != 1 || len(e.accounts) != 2 {
			t.Errorf("%d sets and %d accounts are kept", len(e.labels.sets), len(e.accounts))
		}
		for name := range e.accounts {
			if strings.Contains(name, "xxx") {
				t.Error("an account has a long name")
			}
		}
	})
}

// What is remembered of keys and streams that wait for nothing is bounded by its
// bytes, not by its number alone; what still waits is never forgotten.
func TestManyBytesAreForgotten(t *testing.T) {
	const n, each = 300, 64 << 10
	tr := newTracker()
	var acked []string
	ack := func(a *record.Ack) { acked = append(acked, a.Key) }
	waiting := tr.add(position{key: []byte("first"), token: []byte("t")})
	for i := range n {
		tr.settle(tr.add(position{key: fmt.Appendf(nil, "%d", i), token: bytes.Repeat([]byte("t"), each)}), fateDelivered)
		tr.acks(ack)
	}
	if tr.keyTexts.bytes > manyBytes+2*each {
		t.Errorf("%d keys with %d bytes are kept", len(tr.ids), tr.keyTexts.bytes)
	}
	tr.settle(waiting, fateDelivered)
	if tr.acks(ack); len(acked) != n+1 || acked[n] != "first" {
		t.Errorf("%d acknowledged, the last is %s", len(acked), acked[len(acked)-1])
	}
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Push = tr.loki
		e, err := NewEngine(tr.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			text := fmt.Appendf(bytes.Repeat([]byte("x"), each-20), "%d", i)
			e.stream(text)
			e.labels.get(e, []record.Pair{{Name: []byte("event_type"), Value: text}})
		}
		if e.labelTexts.bytes > manyBytes+each || e.labels.size > manyBytes {
			t.Errorf("%d streams with %d bytes and %d label sets with %d are kept", len(e.streams), e.labelTexts.bytes, e.labels.n, e.labels.size)
		}
	})
}

// A server that says 204 before it has the whole request has not stored it.
func TestAnswerBeforeTheRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 1000))
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		<-answered
	}()
	c := newTestClient(t, Config{URL: "http://" + l.Addr().String()})
	defer c.Close()
	line := make([]byte, 16<<20) // more than any socket takes
	fill := rand.NewChaCha8([32]byte{})
	_, _ = fill.Read(line)
	a := c.Push(context.Background(), onePush(string(line)))
	if v := Judge(a); v.Class != Busy || !errors.Is(a.Err, errEarly) {
		t.Errorf("%v: %+v", a.Err, v)
	}
}

// Blanks without end are not an empty body.
func TestEndlessBlanks(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
				return
			}
		}
	})
	c := newTestClient(t, Config{URL: s.URL})
	if v := Judge(c.Push(context.Background(), onePush("x"))); v.Class != Misconfigured {
		t.Errorf("%+v", v)
	}
}

// A server that quotes the credentials does not get them into messages.
func TestQuotedSecretsAreHidden(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		http.Error(w, "refused: "+r.Header.Get("Authorization")+" "+password, http.StatusUnauthorized)
	})
	say := func() (string, error) { return "s3cr3t", nil }
	for _, cfg := range []Config{{Token: say}, {User: "u", Password: say}} {
		cfg.URL = s.URL
		v := Judge(newTestClient(t, cfg).Push(context.Background(), onePush("x")))
		if !strings.HasPrefix(v.Detail, "refused: ") || strings.Contains(v.Detail, "s3cr3t") || strings.Contains(v.Detail, "dTpz") {
			t.Errorf("detail %q", v.Detail)
		}
	}
}

// A daily budget must not overwrite what is no count of a day.
func TestDailyFileOfSomethingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := EgressConfig{DailyBytes: 100, File: path}
	write(`{"eventlogfile:Login":"..."}`)
	if _, err := newDaily(cfg, nil); sysexits.Of(err) != sysexits.Config {
		t.Errorf("status %d: %v", sysexits.Of(err), err)
	}
	if data, _ := os.ReadFile(path); string(data) != `{"eventlogfile:Login":"..."}` {
		t.Errorf("the file is now %q", data)
	}
	for _, text := range []string{"", `{"date":"2026-`} {
		write(text)
		d, err := newDaily(cfg, nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if ok, _ := d.admit(10); !ok || d.used() != 10 {
			t.Errorf("%q: %t, %d used", text, ok, d.used())
		}
	}
}
