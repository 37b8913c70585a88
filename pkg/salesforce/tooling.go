package salesforce

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
)

// QueryTooling is Query for the objects of the Tooling API.
func (c *Client) QueryTooling(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	return c.query(ctx, "tooling/query?q="+url.QueryEscape(soql))
}
