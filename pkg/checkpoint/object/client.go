package object

import (
	"net/http"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/httpguard"
	"sf2loki/pkg/secret"
)

// Client is what the packages of the vendors ask with: their libraries may read
// an answer whole before they look at it, and follow where it leads. What they
// prove themselves with becomes known to secrets.
func Client(t *http.Transport, secrets *secret.Set) *http.Client {
	if t == nil {
		t = http.DefaultTransport.(*http.Transport).Clone()
	}
	if t.Proxy != nil {
		t.Proxy = secrets.Proxy(t.Proxy)
	}
	c := httpguard.Client(t, checkpoint.MaxBytes+1)
	c.Transport = secrets.Transport(c.Transport)
	return c
}
