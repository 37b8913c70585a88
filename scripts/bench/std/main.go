// Std does the work of sf-pull elf --file and of loki-push the way that most
// programs do: with encoding/csv, encoding/json, time, generated protobuf code
// and net/http. It is what the programs are measured against, and nothing else:
// it keeps no order, judges no entry and settles nothing.
//
//	std elf FILE > records
//	std push URL < records > acks
package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"sf2loki/pkg/loki/pushpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "std:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: std elf FILE | std push URL")
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	var err error
	if args[0] == "elf" {
		err = elf(args[1], out)
	} else {
		err = push(args[1], os.Stdin, out)
	}
	return errors.Join(err, out.Flush())
}

// row is a record of the stream.
type row struct {
	TS       string            `json:"ts"`
	Nano     int64             `json:"ts_unix_nano"`
	Labels   map[string]string `json:"labels"`
	Metadata map[string]string `json:"structured_metadata"`
	Line     string            `json:"line"`
	Key      string            `json:"checkpoint_key"`
	Value    string            `json:"checkpoint_value"`
	Origin   string            `json:"origin"`
	Only     bool              `json:"checkpoint_only,omitempty"`
}

func elf(path string, out io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := csv.NewReader(bufio.NewReaderSize(f, 64<<10))
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		return err
	}
	names = slices.Clone(names)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		values := make(map[string]string, len(names))
		for i, name := range names {
			values[name] = cells[i]
		}
		line, err := json.Marshal(values)
		if err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339Nano, values["TIMESTAMP_DERIVED"])
		if err != nil {
			return err
		}
		err = enc.Encode(&row{
			TS: t.UTC().Format(time.RFC3339Nano), Nano: t.UnixNano(),
			Labels:   map[string]string{"source": "eventlogfile", "event_type": values["EVENT_TYPE"]},
			Metadata: map[string]string{"level": "info"},
			Line:     string(line), Key: "file:" + path, Value: fmt.Sprintf(`{"v":1,"rows":%d}`, n), Origin: path + ":" + strconv.Itoa(n),
		})
		if err != nil {
			return err
		}
	}
}

// batch is what one request takes, as many entries and bytes as loki-push's.
type batch struct {
	stream *pushpb.Stream
	bytes  int
	last   row
}

const (
	batchEntries = 1000
	batchBytes   = 1 << 20
)

func push(url string, in io.Reader, acks io.Writer) error {
	dec := json.NewDecoder(in)
	enc := json.NewEncoder(acks)
	open := map[string]*batch{}
	for {
		var r row
		err := dec.Decode(&r)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if r.Only || r.Line == "" {
			continue
		}
		e, err := entry(&r)
		if err != nil {
			return err
		}
		labels := labelText(r.Labels, e.Timestamp.AsTime())
		b := open[labels]
		if b == nil {
			b = &batch{stream: &pushpb.Stream{Labels: labels}}
			open[labels] = b
		}
		b.stream.Entries = append(b.stream.Entries, e)
		b.bytes += len(r.Line)
		b.last = r
		if len(b.stream.Entries) == batchEntries || b.bytes >= batchBytes {
			delete(open, labels)
			if err := send(url, b, enc); err != nil {
				return err
			}
		}
	}
	for _, b := range open {
		if err := send(url, b, enc); err != nil {
			return err
		}
	}
	return nil
}

func entry(r *row) (*pushpb.Entry, error) {
	t, err := time.Parse(time.RFC3339Nano, r.TS)
	if err != nil {
		return nil, err
	}
	e := &pushpb.Entry{Timestamp: timestamppb.New(t), Line: r.Line}
	for name, value := range r.Metadata {
		e.StructuredMetadata = append(e.StructuredMetadata, &pushpb.LabelPair{Name: name, Value: value})
	}
	return e, nil
}

func labelText(labels map[string]string, t time.Time) string {
	var pairs []string
	for name, value := range labels {
		pairs = append(pairs, name+"="+strconv.Quote(value))
	}
	pairs = append(pairs, `event_hour="`+t.UTC().Format("2006-01-02T15")+`"`)
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

func send(url string, b *batch, acks *json.Encoder) error {
	body, err := proto.Marshal(&pushpb.PushRequest{Streams: []*pushpb.Stream{b.stream}})
	if err != nil {
		return err
	}
	resp, err := http.Post(url, "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, body)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("answer: %s", resp.Status)
	}
	return acks.Encode(map[string]any{"checkpoint_key": b.last.Key, "checkpoint_value": b.last.Value, "delivered": len(b.stream.Entries)})
}
