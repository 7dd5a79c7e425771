package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/model"
)

func TestSchedulerAnnotation(t *testing.T) {
	for _, test := range []struct {
		name string
		want model.Scheduler
		err  string
	}{
		{"", model.SchedulerDefault, ""},
		{"random", model.SchedulerRandom, ""},
		{"rr", model.SchedulerRoundRobin, ""},
		{"wrr", model.SchedulerRoundRobin, ""},
		{"sh", model.SchedulerSourceHash, ""},
		{"mh", model.SchedulerMaglev, ""},
		{"lc", model.SchedulerLeastConnections, ""},
		{"wlc", model.SchedulerLeastConnections, ""},
		{"lblc", model.SchedulerRandom, "count connections"},
		{"sed", model.SchedulerLeastConnections, ""},
		{"nq", model.SchedulerLeastConnections, ""},
		{"fo", model.SchedulerRandom, "every client"},
		{"RR", model.SchedulerDefault, "no such scheduler"},
		{"rr ", model.SchedulerDefault, "no such scheduler"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, errs := Service(service(func(s *corev1.Service) {
				s.Annotations = map[string]string{"kube-vmap.io/scheduler": test.name}
			}))
			want := wantService(func(s *model.Service) { s.Scheduler = test.want })
			check(t, "result", want, got)
			if test.err == "" && len(errs) > 0 || test.err != "" && (len(errs) != 1 ||
				errs[0].Field != "metadata.annotations[kube-vmap.io/scheduler]" || !strings.Contains(errs[0].Error(), test.err)) {
				t.Errorf("errors: %v, want %q", errs, test.err)
			}
		})
	}
	if got, errs := Service(service(nil)); got.Scheduler != model.SchedulerDefault || len(errs) > 0 {
		t.Errorf("without the annotation: %v, %v", got.Scheduler, errs)
	}
}

func TestSchedulerNamesParse(t *testing.T) {
	for _, s := range []model.Scheduler{model.SchedulerRandom, model.SchedulerRoundRobin, model.SchedulerSourceHash, model.SchedulerMaglev, model.SchedulerLeastConnections} {
		if got, err := ParseScheduler(s.String()); got != s || err != nil {
			t.Errorf("%s: got %s, %v", s, got, err)
		}
	}
}
