package admin

import (
	"net/http"
	"time"

	"github.com/weirproxy/weir/server/rlqs"
)

// QuotaAnswer is the answer of /api/v1/quota: the buckets of Envoys with RLQS, those with the highest demand first.
type QuotaAnswer struct {
	Streams int           `json:"streams"`
	Buckets []rlqs.Bucket `json:"buckets"` // with descriptors if values were requested
	More    int           `json:"more"`    // how many are left out
}

func quotaHandler(quotas *rlqs.Service, access *Access) http.HandlerFunc {
	return serveJSON("", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		parameters, err := parametersOnly(r, "domain", "n", "values")
		switch {
		case err != nil:
			return nil, err
		case quotas == nil:
			return nil, refuse(http.StatusNotFound, "No quotas are served here: weir serve has them with RLQS_ENABLED=true, as ratelimit they are off.")
		}
		n, err := parameters.Number("n", defaultDenials, maxDenials)
		if err != nil {
			return nil, err
		}
		values, err := parameters.Bool("values", false)
		if err == nil && values {
			err = access.mayRead(r)
		}
		if err != nil {
			return nil, err
		}
		all, streams := quotas.Buckets(parameters.Get("domain"), time.Now())
		for i := range all {
			if !values {
				all[i].Descriptor = ""
			}
		}
		listed := min(n, len(all))
		return &QuotaAnswer{streams, all[:listed], len(all) - listed}, nil
	})
}
