package cookbook_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/server/admin"
)

// A tenant that demands more than its limit is assigned all of it, and denied the rest; one without a tenant passes.
func TestQuotaRecipeHolds(t *testing.T) {
	t.Parallel()
	recipes := readRecipes(t, filepath.Join(root, "k8s", "cookbook", "QUOTAS.md"))
	if len(recipes) != 1 {
		t.Fatalf("found %d recipes, want one", len(recipes))
	}
	w := weirtest.ServeFiles(t, map[string]string{"shop.yaml": "domain: shop\ndescriptors:\n" + recipes[0].file})
	_, text, _ := net.SplitHostPort(w.GRPC)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	addr := startEnvoy(t, recipes, port, startUpstream(t))[recipes[0].name]
	get := func(tenant string) (status int) {
		r, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tenant != "" {
			r.Header.Set("x-tenant", tenant)
		}
		answer, err := weirtest.Patient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for tenant, limit := range map[string]float64{"beta": 100, "acme": 500} {
		weirtest.Eventually(t, "tenant "+tenant+" has all of its limit", func() error {
			get(tenant)
			var a admin.QuotaAnswer
			err := weirtest.GetJSON(w.Admin+"/api/v1/quota", &a)
			for _, one := range a.Buckets {
				if one.Assignment == "share" && one.Share > limit*0.99 && one.Share <= limit {
					return err
				}
			}
			return fmt.Errorf("%+v, %w", a, err)
		})
	}
	w.Configure(t, strings.Replace(recipes[0].file, "requests_per_unit: 100,", "requests_per_unit: 1,", 1)) // which the slowest machine exceeds
	weirtest.Eventually(t, "a tenant beyond its limit is denied", func() error {
		if status := get("beta"); status != http.StatusTooManyRequests {
			return fmt.Errorf("it is answered %d", status)
		}
		return nil
	})
	if status := get(""); status != http.StatusOK {
		t.Errorf("without a tenant: %d", status)
	}
}
