package salesforce

import (
	"net/http"
	"strings"
	"testing"
)

// A secret that a server quotes is not shown, not even the beginning of one that
// the message is too short for, nor one in the form in which it was sent.
func TestQuotedSecrets(t *testing.T) {
	for _, secret := range []string{strings.Repeat("x+/=", 20), strings.Repeat("eyJ", 1000)} {
		for _, answer := range []string{"<p>" + secret, "client_secret=" + strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(secret), strings.Repeat("a", 190) + secret} {
			e := classifyLogin(http.StatusUnauthorized, nil, starred([]byte(answer), []string{"", secret}))
			for _, part := range []string{"x+/", "x%2B", "eyJ"} {
				if strings.Contains(e.Message, part) {
					t.Errorf("%.80q is told as %.300q", answer, e.Message)
				}
			}
		}
	}
}
