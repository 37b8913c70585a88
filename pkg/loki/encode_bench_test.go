package loki

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"sf2loki/pkg/loki/pushpb"
	"sf2loki/pkg/record"
)

// benchEntries are like a thousand rows of an event log file: JSON lines of
// about 560 bytes, no two alike, eight pieces of metadata.
type benchEntry struct {
	ts       int64
	line     []byte
	metadata []record.Pair
}

var benchLabels = []string{"source", "eventlogfile", "event_type", "Login", "sf_org_id", "00D000000000001AAA",
	"environment", "production", "job", "sf2loki", "event_hour", "2026-07-01T17"}

func benchEntries(n int) (list []benchEntry, lineBytes int64) {
	for i := range n {
		line := fmt.Appendf(nil, `{"EVENT_TYPE":"Login","TIMESTAMP":"20260701170000.%03d","REQUEST_ID":"4bJ%012x","ORGANIZATION_ID":"00D000000000001",`+
			`"USER_ID":"005%012d","RUN_TIME":"%d","CPU_TIME":"%d","URI":"/index.jsp","SESSION_KEY":"%016x","LOGIN_KEY":"%016x",`+
			`"REQUEST_STATUS":"Success","DB_TOTAL_TIME":"%d","BROWSER_TYPE":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36","API_TYPE":"",`+
			`"API_VERSION":"9998.0","USER_NAME":"user%d@example.com","TLS_PROTOCOL":"TLSv1.3","CIPHER_SUITE":"TLS_AES_256_GCM_SHA384","SOURCE_IP":"203.0.113.%d"}`,
			i, i*7919, i%200, i%311, i%97, i*104729, i*1299709, i*31, i%200, i%256)
		md := pairs("level", "info", "user_id", fmt.Sprintf("005%012d", i%200), "request_id", fmt.Sprintf("4bJ%012x", i*7919),
			"status", "Success", "source_ip", fmt.Sprintf("203.0.113.%d", i%256), "uri", "/index.jsp", "tls", "TLSv1.3", "api", "9998.0")
		list = append(list, benchEntry{1782936000000000000 + int64(i)*1e6, line, md})
		lineBytes += int64(len(line))
	}
	return list, lineBytes
}

func benchPush(entries []benchEntry) []byte {
	var run []byte
	for i := range entries {
		run = AppendEntry(run, entries[i].ts, entries[i].line, entries[i].metadata)
	}
	return AppendPush(nil, AppendLabels(nil, pairs(benchLabels...)), [][]byte{run})
}

// BenchmarkEncode is a request of 1000 entries, in MB of lines per second.
func BenchmarkEncode(b *testing.B) {
	entries, lineBytes := benchEntries(1000)
	labels := pairs(benchLabels...)

	b.Run("append", func(b *testing.B) {
		b.SetBytes(lineBytes)
		b.ReportAllocs()
		var run, push, text []byte
		parts := make([][]byte, 1)
		for b.Loop() {
			run, push = run[:0], push[:0]
			for i := range entries {
				run = AppendEntry(run, entries[i].ts, entries[i].line, entries[i].metadata)
			}
			text = AppendLabels(text[:0], labels)
			parts[0] = run
			push = AppendPush(push, text, parts)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.SetBytes(lineBytes)
		b.ReportAllocs()
		var push []byte
		for b.Loop() {
			stream := &pushpb.Stream{Labels: string(AppendLabels(nil, labels))}
			for i := range entries {
				e := &pushpb.Entry{Timestamp: timestamppb.New(time.Unix(0, entries[i].ts)), Line: string(entries[i].line)}
				for _, p := range entries[i].metadata {
					e.StructuredMetadata = append(e.StructuredMetadata, &pushpb.LabelPair{Name: string(p.Name), Value: string(p.Value)})
				}
				stream.Entries = append(stream.Entries, e)
			}
			var err error
			push, err = proto.MarshalOptions{}.MarshalAppend(push[:0], &pushpb.PushRequest{Streams: []*pushpb.Stream{stream}})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		push := benchPush(entries)
		b.SetBytes(lineBytes)
		b.ReportAllocs()
		var text []byte
		for b.Loop() {
			var err error
			if text, err = AppendJSON(text[:0], push); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	entries, _ := benchEntries(1000)
	push := benchPush(entries)
	dst := make([]byte, snappy.MaxEncodedLen(len(push)))
	for _, c := range []struct {
		name   string
		encode func(dst, src []byte) []byte
	}{
		{"golang", snappy.Encode},
		{"s2", s2.EncodeSnappy},
		{"pieces", func(dst, src []byte) []byte { return appendSnappy(dst[:0], src) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(push)))
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				out = c.encode(dst, push)
			}
			b.ReportMetric(float64(len(push))/float64(len(out)), "ratio")
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	entries, lineBytes := benchEntries(1000)
	labels := pairs(benchLabels...)
	l := DefaultLimits()
	b.SetBytes(lineBytes)
	b.ReportAllocs()
	for b.Loop() {
		for i := range entries {
			if l.CheckLabels(labels) != nil || l.CheckTime(entries[i].ts, entries[i].ts) != nil || l.checkMetadata(entries[i].metadata, nil) != nil {
				b.Fatal("refused")
			}
		}
	}
}

// BenchmarkPush is Client.Push of 1000 entries to a server that only answers,
// in MB of lines per second; the server's share of the CPU is in it.
func BenchmarkPush(b *testing.B) {
	entries, lineBytes := benchEntries(1000)
	push := benchPush(entries)
	for _, enc := range []struct {
		name     string
		encoding Encoding
	}{{"protobuf", Protobuf}, {"json", JSON}} {
		b.Run(enc.name, func(b *testing.B) {
			server := newNullServer(b)
			c, err := NewClient(Config{URL: server.URL, Encoding: enc.encoding})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.SetBytes(lineBytes)
			b.ReportAllocs()
			for b.Loop() {
				if a := c.Push(context.Background(), push); a.Status != 204 {
					b.Fatalf("%+v", a)
				}
			}
		})
	}
}

func BenchmarkJudge(b *testing.B) {
	entry := []byte("entry for stream '{a=\"b\"}' has timestamp too old: 2026-11-22T11:57:52Z, oldest acceptable timestamp is: 2026-11-23T11:57:52Z; ")
	body := bytes.Repeat(append([]byte("3 errors like: "), entry...), 60)[:MaxBody]
	for b.Loop() {
		if v := Judge(Answer{Status: 400, ContentType: "text/plain", Body: body}); v.Class != Partial {
			b.Fatal(v.Class)
		}
	}
}
