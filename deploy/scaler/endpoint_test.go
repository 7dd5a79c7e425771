package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// endpointSlices are in an API server. ready are the ready endpoints; nil if it is away.
type endpointSlices struct {
	v1.EndpointSliceInterface
	ready func() []string
}

func (s endpointSlices) List(context.Context, metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	list, unready := &discoveryv1.EndpointSliceList{}, false
	if s.ready() == nil {
		return list, errors.New("the API server is away")
	}
	for _, addr := range s.ready() {
		list.Items = append(list.Items, discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{addr}}, {Addresses: []string{"192.0.2.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &unready}},
		}})
	}
	return list, nil
}

// TestDemandIsUnknownElsewhere has a program to which nodes report, until they may not. An address
// of this program is one on loopback.
func TestDemandIsUnknownElsewhere(t *testing.T) {
	const own, own6, other, other6 = "127.0.0.1", "::1", "192.0.2.1", "2001:db8::1"
	for what, test := range map[string]struct {
		later  []string
		noKeys error
		err    string
	}{
		"still here":    {[]string{own, own6}, nil, ""},
		"one family":    {[]string{own6}, nil, ""},
		"lost its node": {[]string{}, nil, "no ready endpoint"},
		"a successor":   {[]string{other6}, nil, "to another Pod, " + other6},
		"two scalers":   {[]string{own, other}, nil, "to another Pod, " + other},
		"lost the API":  {nil, nil, "is away"},
		"no keys":       {[]string{own}, errors.New("refused"), "refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, began := newDemands(), time.Now()
			d.unsettle(settleTime)
			known := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
				defer cancel()
				_, err := d.await(ctx, web)
				return err == nil
			}
			noKeys := error(nil)
			e := &endpoint{func(context.Context) error { return noKeys }, endpointSlices{ready: func() []string {
				switch after := time.Since(began); {
				case after < time.Minute:
					return []string{other} // its predecessor
				case after < 2*time.Minute:
					return []string{own, own6}
				}
				noKeys = test.noKeys
				return test.later
			}}, d, slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithDeadline(t.Context(), began.Add(3*time.Minute))
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- e.run(ctx) }()
			for _, at := range []struct {
				after time.Duration
				known bool
			}{
				{50 * time.Second, false},
				{time.Minute + settleTime - endpointPeriod, false},
				{time.Minute + settleTime + endpointPeriod, true},
				{2*time.Minute + endpointPeriod + 1, test.err == ""},
			} {
				<-time.After(time.Until(began.Add(at.after)))
				if got := known(); got != at.known {
					t.Errorf("%s: after %s demand is known: %t", what, at.after, got)
				}
			}
			err := <-ended
			if took := time.Since(began) - 2*time.Minute; test.err == "" && err != nil ||
				test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || took > settleTime+endpointPeriod) {
				t.Errorf("%s: it ends after %s: %v, want %q", what, took, err, test.err)
			}
		})
	}
}
