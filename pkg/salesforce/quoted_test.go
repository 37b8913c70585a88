package salesforce

import (
	"net/http"
	"strings"
	"testing"

	"sf2loki/pkg/secret"
)

// A secret that a server quotes is not shown, not even the beginning of one that
// the message is too short for, nor one in a form that the message's decoding
// makes.
func TestQuotedSecrets(t *testing.T) {
	for _, text := range []string{strings.Repeat("x+/=", 20), strings.Repeat("eyJ", 1000)} {
		c := &Client{set: &settings{Config: Config{Secrets: &secret.Set{}}}}
		c.set.Secrets.Add(text)
		for _, body := range []string{
			"<p>" + text,
			"client_secret=" + strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(text),
			strings.Repeat("a", maxMessage-20) + text,
			strings.Repeat("a", maxMessage-20) + text[:30],
			`{"error":"` + strings.ReplaceAll(text, "/", `\/`) + `"}`,
			`[{"errorCode":"X","message":"` + strings.NewReplacer("+", `\u002b`, "y", `\u0079`).Replace(text) + `"}]`,
			`<Error><Error><errorCode>X</errorCode><message>` + strings.NewReplacer("+", "&#43;", "J", "&#x4A;").Replace(text) + "</message></Error></Error>",
		} {
			e := c.judge(classifyLogin, &answer{op: "log in", status: http.StatusUnauthorized}, []byte(body))
			if shown := e.Error(); strings.Contains(shown, text[:8]) || strings.Contains(shown, "x%2B") || !strings.Contains(shown, secret.Mark) {
				t.Errorf("%.80q is told as %.300q", body, shown)
			}
		}
	}
}
