package object

import (
	"net/http"

	"sf2loki/pkg/httpguard"
)

// Client is what the packages of the vendors ask with: their libraries may read
// an answer whole before they look at it, and follow where it leads.
func Client(t *http.Transport) *http.Client { return httpguard.Client(t, maxBytes+1) }
