package cookbook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// issuerKey is what the issuer of the recipes' tokens signs with.
const issuerKey = "the cookbook's issuer signs its tokens with this"

// issuerKeys writes the file in which Envoy finds the issuer's keys.
func issuerKeys(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "jwks.json")
	keys := fmt.Sprintf(`{"keys": [{"kty": "oct", "alg": "HS256", "k": %q}]}`, encode(issuerKey))
	if err := os.WriteFile(file, []byte(keys), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// token is a signed JWT with claims.
func token(claims string) string {
	text := encode(`{"alg":"HS256","typ":"JWT"}`) + "." + encode(claims)
	sum := hmac.New(sha256.New, []byte(issuerKey))
	sum.Write([]byte(text))
	return text + "." + encode(string(sum.Sum(nil)))
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
