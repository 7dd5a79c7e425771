package cluster_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
	"kube-vmap/sync/source/cluster/apitest"
)

// TestSourceKeepsLittle measures the heap of a source after its first burst, including the burst.
// integration/cluster compares it with informers of the same objects.
func TestSourceKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const services = 2000
		s := apitest.New()
		for i := range services {
			fill(s, i)
		}
		s.Put(node())
		before := heap()
		r := run(t, s)
		first := r.now()
		if kept := (heap() - before) / services; kept > 4000 {
			t.Errorf("the source keeps %d bytes of a Service with ten endpoints, want 4000 at most", kept)
		}
		runtime.KeepAlive(first)
	})
}

// fill adds a Service with ten endpoints, as controllers create them.
func fill(s *apitest.Server, i int) {
	name := fmt.Sprintf("service-%d", i)
	service, slice := service(name, i+1), slice(name, model.IPv4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	for j := range slice.Endpoints {
		slice.Endpoints[j].TargetRef = &corev1.ObjectReference{
			Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("%s-5d4f8c7b9-%05d", name, j),
			UID: "8d0e2b5c-6a4e-4a0e-9a55-3a1d3b0c9f10",
		}
		slice.Endpoints[j].NodeName = ptr.To(fmt.Sprintf("node-%d.example.com", (i*10+j)%500))
	}
	for _, o := range []apitest.Object{service, slice} {
		labels := map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop"}
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("{", 400)),
		}})
	}
	s.Put(service, slice)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
