package eventlog

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"
)

// API is what this package needs of a Salesforce client.
type API interface {
	Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error]
	Get(ctx context.Context, path string) ([]byte, error)
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	Now() time.Time // by Salesforce's clock
}
