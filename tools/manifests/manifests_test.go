// Package manifests checks the files of examples/cluster: those of Kubernetes against the types of its API, and that of Compose
// against its specification.
package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/cluster/"

// checks are the files, and what a file must be.
var checks = map[string]func(text []byte) error{
	"kubernetes.yaml":  checkKubernetes,
	"compose.yaml":     checkCompose,
	"nats-values.yaml": checkValues,
}

func checkKubernetes(text []byte) error {
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(part, &kind); err != nil {
			return err
		}
		if kind != (meta.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}) {
			return fmt.Errorf("nothing here checks a %s of %s", kind.Kind, kind.APIVersion)
		}
		var set apps.DaemonSet
		if err := decode(part, &set); err != nil {
			return err
		}
		selector, err := meta.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil {
			return err
		}
		if selector.Empty() || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			return fmt.Errorf("the selector %q does not select the template", selector)
		}
		if err := errors.Join(checkName(set.Name), checkPod(&set.Spec.Template.Spec)); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes YAML as the server of Kubernetes does if it is asked to be strict: a field that is not known, in this very spelling, is
// an error.
func decode(text []byte, into any) error {
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(document, into)
	return errors.Join(append(unknown, err)...)
}

func checkName(name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("the name %q: %s", name, strings.Join(wrong, ", "))
	}
	return nil
}

// checkPod checks what the types do not say: that what has to be there is there, and that names name something.
func checkPod(pod *core.PodSpec) error {
	if len(pod.Containers) == 0 {
		return errors.New("no containers")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		if err := checkName(c.Name); err != nil || c.Image == "" {
			return errors.Join(err, fmt.Errorf("container %q with image %q", c.Name, c.Image))
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || m.MountPath == "" {
				return fmt.Errorf("no volume %q for %q", m.Name, m.MountPath)
			}
			delete(volumes, m.Name)
		}
		ports := map[string]bool{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort > 0
		}
		for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p == nil || p.HTTPGet == nil || !ports[p.HTTPGet.Port.String()] {
				return fmt.Errorf("a probe is missing, or asks another port than %v", ports)
			}
		}
	}
	if len(volumes) > 0 {
		return fmt.Errorf("volumes that nothing mounts: %v", volumes)
	}
	return nil
}

func checkCompose(text []byte) error {
	_, err := loader.LoadWithContext(context.Background(), compose.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []compose.ConfigFile{{Filename: "compose.yaml", Content: text}},
		Environment: compose.Mapping{"DATA": "/data"},
	}, func(o *loader.Options) { o.SetProjectName("cluster", true) })
	return err
}

// values are those of the chart of NATS that the file sets. The chart has no schema.
type values struct {
	Config struct {
		Cluster struct {
			Enabled  bool `json:"enabled"`
			Replicas int  `json:"replicas"`
		} `json:"cluster"`
		JetStream struct {
			Enabled     bool `json:"enabled"`
			MemoryStore struct {
				Enabled bool   `json:"enabled"`
				MaxSize string `json:"maxSize"`
			} `json:"memoryStore"`
			FileStore struct {
				Enabled bool `json:"enabled"`
				PVC     struct {
					Size string `json:"size"`
				} `json:"pvc"`
			} `json:"fileStore"`
		} `json:"jetstream"`
	} `json:"config"`
	Container struct {
		Env   map[string]string `json:"env"`
		Merge struct {
			Resources core.ResourceRequirements `json:"resources"`
		} `json:"merge"`
	} `json:"container"`
	PodTemplate struct {
		TopologySpreadConstraints map[string]core.TopologySpreadConstraint `json:"topologySpreadConstraints"`
	} `json:"podTemplate"`
}

func checkValues(text []byte) error { return decode(text, new(values)) }

func TestFiles(t *testing.T) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") {
			continue
		}
		check := checks[e.Name()]
		if check == nil {
			t.Errorf("nothing checks %s", e.Name())
			continue
		}
		checked++
		if err := check(read(t, e.Name())); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if checked != len(checks) {
		t.Errorf("%d files were checked, and there should be %d", checked, len(checks))
	}
}

// TestMistakes has the check find mistakes that somebody plants in the files.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"kubernetes.yaml", "readinessProbe:", "readynessProbe:", "readynessProbe"},
		{"kubernetes.yaml", "runAsNonRoot: true", "runAsNonroot: true", "runAsNonroot"},
		{"kubernetes.yaml", "memory: 4Gi", "memory: 4Gigs", "quantities must match"},
		{"kubernetes.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 60s", "cannot unmarshal"},
		{"kubernetes.yaml", "kind: DaemonSet", "kind: Daemonset", "nothing here checks"},
		{"kubernetes.yaml", "matchLabels: {app.kubernetes.io/name: purecuda-worker}", "matchLabels: {app.kubernetes.io/name: worker}", "does not select"},
		{"kubernetes.yaml", "port: probes}\n            periodSeconds: 10", "port: http}\n            periodSeconds: 10", "a probe"},
		{"kubernetes.yaml", "{name: cache, mountPath: /cache}", "{name: cash, mountPath: /cache}", "no volume"},
		{"kubernetes.yaml", "image: purecuda-cluster", "# no image", "with image"},
		{"kubernetes.yaml", "name: purecuda-worker\n", "name: purecuda_worker\n", "the name"},
		{"compose.yaml", "read_only: true", "readonly: true", "readonly"},
		{"compose.yaml", "capabilities: [gpu]", "capabilites: [gpu]", "capabilites"},
		{"compose.yaml", "depends_on: [nats]", "depends_on: [nuts]", "nuts"},
		{"compose.yaml", "stop_grace_period: 30s", "stop_grace_period: soon", "soon"},
		{"nats-values.yaml", "maxSkew: 1", "maxSkwe: 1", "maxSkwe"},
		{"nats-values.yaml", "memory: 8Gi", "memory: 8Gigs", "quantities must match"},
		{"nats-values.yaml", "jetstream:", "jetStream:", "jetStream"},
	} {
		text := string(read(t, c.file))
		if !strings.Contains(text, c.old) {
			t.Errorf("%s has no %q", c.file, c.old)
			continue
		}
		err := checks[c.file]([]byte(strings.Replace(text, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.file, c.new, err, c.want)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
