package loki

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/sysexits"
)

// Counted is how many entries Loki holds of a source and event type in an hour.
type Counted struct {
	Source    string    `json:"source"`
	EventType string    `json:"event_type"`
	Hour      time.Time `json:"hour"`
	Entries   int64     `json:"entries"`
}

// queryPath is where a server answers what push takes.
const queryPath = "/loki/api/v1/query"

// maxCounts bounds the answer to one question.
const maxCounts = 16 << 20

// Count asks how many entries a selector, {source="eventlogfile"} for example,
// has in the hour that begins at hour, by source and event type.
func (c *Client) Count(ctx context.Context, selector string, hour time.Time) ([]Counted, error) {
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	target := *c.target
	target.Path, target.RawPath = strings.TrimSuffix(target.Path, PushPath)+queryPath, ""
	target.RawQuery = url.Values{
		"query": {"sum by (source, event_type) (count_over_time(" + selector + "[1h]))"},
		// A range holds its end and not its beginning.
		"time": {strconv.FormatInt(hour.Add(time.Hour).UnixNano()-1, 10)},
	}.Encode()
	req := (&http.Request{Method: http.MethodGet, URL: &target, Host: target.Host, Header: c.header.Clone()}).WithContext(limited)
	req.Header.Del("Content-Type")
	req.Header.Del("Content-Encoding")
	req.Header.Set("Accept", "application/json")
	if err := c.auth.authorize(req.Header); err != nil {
		return nil, fmt.Errorf("ask %s: %w", redacted(&target), err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, sysexits.Errorf(sysexits.Unavailable, "ask %s: %w", redacted(&target), c.explain(ctx, limited, err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxCounts))
	if err != nil {
		return nil, sysexits.Errorf(sysexits.Unavailable, "ask %s: %w", redacted(&target), c.explain(ctx, limited, err))
	}
	if resp.StatusCode != http.StatusOK {
		return nil, sysexits.Errorf(countCode(resp.StatusCode), "ask %s: %d %.300q", redacted(&target), resp.StatusCode, c.quoted(text))
	}
	counts, err := parseCounts(text, hour)
	if err != nil {
		return nil, sysexits.Errorf(sysexits.Unavailable, "ask %s: this is no answer of Loki: %w: %.300q", redacted(&target), err, c.quoted(text))
	}
	return counts, nil
}

// quoted is the beginning of an answer, for a message.
func (c *Client) quoted(text []byte) string {
	return c.secrets.Hide(string(text[:min(len(text), MaxBody)]))
}

func countCode(status int) sysexits.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return sysexits.NoPerm
	case status == http.StatusTooManyRequests, status >= 500:
		return sysexits.Unavailable
	}
	return sysexits.Config
}

func parseCounts(text []byte, hour time.Time) ([]Counted, error) {
	var answer struct {
		Status string
		Data   struct {
			ResultType string
			Result     []struct {
				Metric struct {
					Source    string
					EventType string `json:"event_type"`
				}
				Value [2]any
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" || answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("status %.40q, type %.40q", answer.Status, answer.Data.ResultType)
	}
	var counts []Counted
	for _, r := range answer.Data.Result {
		number, _ := r.Value[1].(string)
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("the count %.40q", number)
		}
		counts = append(counts, Counted{r.Metric.Source, r.Metric.EventType, hour.UTC(), n})
	}
	return counts, nil
}
