// The choice of the engine's container, and launchers that keep Larder's additions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

// The names of the containers that get the flag.
std::string engines_of(const char* containers) {
  InjectionCase one = container_case("{}");
  one.pod["spec"]["containers"] = from_yaml(containers).front();
  const webhook::Injection injection = one.inject();
  if (!injection.refused.empty()) return injection.refused;
  std::string names;
  const Object after = patched(one.pod, injection.patch);
  for (const Object& container : after["spec"]["containers"])
    if (container.dump().find("LarderConnector") != std::string::npos)
      names += container["name"].get<std::string>() + " ";
  return names;
}

// covers F-402
TEST(EngineContainer, OfArgsThatBeginWithAProgramIsNone) {
  for (const char* args : {"[sleep, infinity]",
                           "[python3, -m, dynamo.vllm, --model, m]",
                           "[python3, server.py]",
                           "[bash, /start.sh]",
                           "[/bin/x]",
                           "[/usr/local/bin/serve-it, --port, '1']",
                           "[ray, --version]",
                           "[tail, -f, /dev/null]",
                           "[nginx, -g, 'daemon off;']",
                           "[cat]",
                           "[env, A=1, sleep, '1']",
                           "[/start.sh]",
                           "[vllm, bench, serve]",
                           "[jupyter, lab]",
                           "[something, else]",
                           "[tini, --, x]",
                           "[sshd, -D]",
                           "[jupyter-lab, --ip, 0.0.0.0]",
                           "[supervisord, -n]",
                           "[litellm, --port, '1']",
                           "[nvidia-smi]",
                           "[rocm-smi]",
                           "[code-server]",
                           "[s6-svscan, /etc/s6]",
                           "[a-program-of-tomorrow, --port, '1']",
                           "[gpt2]",
                           "[/init]",
                           "[./server, --port, '1']",
                           "[/entrypoint-all, -v]",
                           "[/opt/app/start_it]",
                           "[-m, dynamo.vllm, --model, m]",
                           "[-c, print(1)]",
                           "[app.sh]"})
    EXPECT_NE(refusal(std::string("{image: 'rocm/vllm-dev:1', args: ") + args + "}")
                  .find("args that begin with a program"),
              std::string::npos)
        << args << ": " << refusal(std::string("{image: 'rocm/vllm-dev:1', args: ") + args + "}");
}

TEST(EngineContainer, VllmArgsAreAnEngine) {
  for (const char* args : {"[m]", "[org/model, --port, '1']", "[/mnt/models, --max-model-len, '1']",
                           "[--model, m]", "[serve, m]", "[--port, '1']", "[$(MODEL), --port, '1']",
                           "[vllm, serve, m]", "[m, -tp, '2']", "[ray-model/m, --seed, '1']",
                           "[-m, vllm.entrypoints.openai.api_server, --model, m]"})
    EXPECT_EQ(refusal(std::string(
                          "{image: 'vllm/vllm-openai:1', env: [{name: MODEL, value: m}], args: ") +
                      args + "}"),
              "")
        << args;
}

// covers F-380
TEST(EngineContainer, UnknownEntrypointNeedsAModelOrAFlag) {
  for (const char* args : {"[serve, m]", "[org/model]", "[org/model, --port, '1']", "[/mnt/models]",
                           "[/models/m.gguf]", "['s3://bucket/m']", "[--model, m]", "[--port, '1']",
                           "[m, --max-model-len, '1']", "[m, -tp, '2']",
                           "[m, --served-model-name=x]", "[./models/m, --seed, '1']"})
    for (const char* image : {"rocm/vllm-dev:1", "team/vllm:2"})
      EXPECT_EQ(refusal(std::string("{image: '") + image + "', args: " + args + "}"), "") << args;
  for (const char* image : {"vllm/vllm-openai:1", "registry.x/rhaiis/vllm-cuda-rhel9:3",
                            "lmcache/vllm-openai:1", "q9t5s3a7/vllm-cpu-release-repo:1"})
    EXPECT_EQ(refusal(std::string("{image: '") + image + "', args: [gpt2]}"), "") << image;
  InjectionCase one = container_case("{image: 'team/vllm:2', args: [gpt2]}");
  one.pool->spec.engine.container = "engine";
  EXPECT_EQ(one.inject().refused, "") << "the pool names the engine";
}

TEST(EngineContainer, VllmArgsDecideAmongSeveralImages) {
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [--port, '1']}, {name: b, image: "
                       "'x/vllm-b:1', args: [o/m]}]"),
            "b ");
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [--max-model-len, '1']}, {name: b, "
                       "image: 'x/vllm-b:1', args: [--port, '1']}]"),
            "a ");
  EXPECT_EQ(
      engines_of(
          "[{name: a, image: 'x/vllm-a:1', args: [o/m]}, {name: b, image: 'x/vllm-b:1', args: "
          "[o/n]}]"),
      "a b ");
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [sleep, '1']}, {name: b, image: "
                       "'x/vllm-b:1', args: [--port, '1']}]"),
            "b ");
  const std::string none = engines_of(
      "[{name: a, image: 'x/vllm-a:1', args: [--port, '1']}, {name: b, image: 'x/vllm-b:1', args: "
      "[--port, '2']}]");
  EXPECT_NE(none.find("several containers of the pod may be the engine (a, b)"), std::string::npos)
      << none;
}

TEST(EngineContainer, EngineAmongInitContainersIsReported) {
  InjectionCase one = container_case("{image: app, command: [app]}");
  one.pod["spec"]["initContainers"] =
      from_yaml("[{name: side, restartPolicy: Always, command: [vllm, serve, m]}]").front();
  EXPECT_NE(
      one.inject().refused.find(
          "engine side is an init container, and the injector does not change init containers; "),
      std::string::npos)
      << one.inject().refused;
}

// covers F-241, F-382, F-403
TEST(Environment, ThatIsTakenAwayIsSaid) {
  for (const char* command :
       {"[env, --ignore-env, vllm, serve, m]",
        "[env, --uns=PYTHONPATH, vllm, serve, m]",
        "[env, PYTHONPATH=$PYTHONPATH, vllm, serve, m]",
        "[env, 'PYTHONPATH=/a:$(OTHER)', vllm, serve, m]",
        "[nsys, profile, -e, 'A=1,PYTHONPATH=/a', vllm, serve, m]",
        "[nsys, profile, --env-var=LARDER_SOCKET=/x, vllm, serve, m]",
        "[nsys, profile, --run-as=app, vllm, serve, m]",
        "[bash, -c, 'exec -l -c vllm serve m']",
        "[bash, -c, 'exec -a engine -c vllm serve m']",
        "[sh, -c, 'export PYTHONPATH=${PYTHONPATH:+/a}; vllm serve m']",
        "[sh, -c, 'LARDER_SOCKET=/x vllm serve m']",
        "[sh, -c, 'export LARDER_SOCKET=/x; vllm serve m']",
        "[env, -i, vllm, serve, m]",
        "[env, '-', PATH=/bin, vllm, serve, m]",
        "[env, --ignore-environment, A=1, vllm, serve, m]",
        "[env, -u, PYTHONPATH, vllm, serve, m]",
        "[env, --unset=PYTHONPATH, vllm, serve, m]",
        "[env, -uLARDER_SOCKET, vllm, serve, m]",
        "[env, PYTHONPATH=/app, vllm, serve, m]",
        "[sudo, -E, vllm, serve, m]",
        "[gosu, user, vllm, serve, m]",
        "[su-exec, user, vllm, serve, m]",
        "[s6-setuidgid, app, vllm, serve, m]",
        "[sh, -c, 'exec s6-setuidgid app vllm serve m']",
        "[chpst, -u, app, vllm, serve, m]",
        "[bash, -c, 'C=(vllm serve m); exec env -i \"${C[@]}\"']",
        "[bash, -c, 'C=(vllm serve m); exec chroot / \"${C[@]}\"']",
        "[sh, -c, 'exec env -i \"$@\"', --, vllm, serve, m]",
        "[bash, -c, '. /config/env; PYTHONPATH=/a:$PYTHONPATH vllm serve m']",
        "[bash, -c, 'C=(vllm serve m); . /config/env; \"${C[@]}\"']",
        "[bash, -c, 'read PYTHONPATH < /x; exec \"$@\"', --, vllm, serve, m]",
        "[su, '-', user, -c, vllm serve m]",
        "[runuser, -u, user, --, vllm, serve, m]",
        "[setpriv, --reset-env, vllm, serve, m]",
        "[setpriv, --reuid, '1', --clear-groups, vllm, serve, m]",
        "[python3, -I, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -uE, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -S, /usr/bin/vllm, serve, m]",
        "[env, -i, bash, -c, vllm serve m]",
        "[nice, env, -i, vllm, serve, m]",
        "[sh, -c, 'env -i vllm serve m']",
        "[sh, -c, 'exec env -i PATH=\"$PATH\" vllm serve m']",
        "[bash, -c, 'exec -c vllm serve m']",
        "[bash, -c, 'exec -cl vllm serve m']",
        "[sh, -c, 'unset PYTHONPATH; vllm serve m']",
        "[sh, -c, 'unset A PYTHONPATH B; vllm serve m']",
        "[bash, -c, 'export -n PYTHONPATH; vllm serve m']",
        "[bash, -c, 'declare +x PYTHONPATH; vllm serve m']",
        "[sh, -c, 'PYTHONPATH= vllm serve m']",
        "[sh, -c, 'export PYTHONPATH=/a:$PYTHONPATH; PYTHONPATH=/b vllm serve m']",
        "[sh, -c, 'A=/app; export PYTHONPATH=$A; vllm serve m']",
        "[sh, -c, 'env PYTHONPATH=/x vllm serve m']",
        "[sh, -c, 'python3 -E -m vllm.entrypoints.openai.api_server']",
        "[bash, -c, 'env -i bash -c \"vllm serve m\"']",
        "[sh, -c, 'sudo -u user vllm serve m']",
        "[sh, -c, 'unset PYTHONPATH; exec \"$@\"', --, vllm, serve, m]",
        "[bash, -c, 'for v in $(env | cut -d= -f1); do unset $v; done; vllm serve m']",
        "[bash, -c, 'for v in A PYTHONPATH; do unset \"$v\"; done; vllm serve m']",
        "[bash, -c, 'unset $(compgen -e); vllm serve m']",
        "[bash, -c, 'unset -v \"${!PYTHON@}\"; vllm serve m']",
        "[bash, -c, 'while read -r v; do unset $v; done < /x; vllm serve m']",
        "[bash, -c, 'for v in A B; do export -n $v; done; export -n $X; vllm serve m']",
        "[bash, -c, 'typeset +x $X; vllm serve m']",
        "[bash, -c, 'eval \"unset $X\"; vllm serve m']",
        "[sh, -c, 'unset LARDER_SOCKET; vllm serve m']",
        "[sh, -c, 'env -u $X vllm serve m']",
        "[env, -u, $(X), vllm, serve, m]",
        "[sh, -c, 'export PYTHONPATH=${PYTHONPATH#*:}; vllm serve m']",
        "[bash, -c, 'C=(vllm serve m); D=(env -i \"${C[@]}\"); \"${D[@]}\"']",
        "[bash, -c, 'C=(vllm serve m); P=(env -i); \"${P[@]}\" \"${C[@]}\"']",
        "[bash, -c, 'C=(vllm serve m); P=\"chroot /x\"; $P \"${C[@]}\"']",
        "[bash, -c, 'run() { env -i \"$@\"; }; C=(vllm serve m); run \"${C[@]}\"']"}) {
    const std::string why = refusal(std::string("{command: ") + command + "}");
    EXPECT_NE(why.find("cannot be connected: "), std::string::npos) << command << ": " << why;
    EXPECT_NE(why.find("; "), std::string::npos) << why;
  }
}

TEST(Environment, KeptEnvironmentIsInjected) {
  for (const char* command :
       {"[env, -u, HTTP_PROXY, vllm, serve, m]",
        "[env, -C, /tmp, A=1, vllm, serve, m]",
        "[env, 'PYTHONPATH=/a:$(PYTHONPATH)', vllm, serve, m]",
        "[setpriv, --reuid, '1', vllm, serve, m]",
        "[python3, -u, -X, dev, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -W, ignore::E, -m, vllm.entrypoints.openai.api_server]",
        "[bash, -c, 'exec -a engine vllm serve m']",
        "[/usr/bin/tini, -g, --, vllm, serve, m]",
        "[dumb-init, vllm, serve, m]",
        "[numactl, -m, '0', vllm, serve, m]",
        "[nsys, profile, -o, report, vllm, serve, m]",
        "[nsys, profile, -e, A=1, vllm, serve, m]",
        "[env, --ignore-signal=PIPE, vllm, serve, m]",
        "[/opt/nvidia/nvidia_entrypoint.sh, vllm, serve, m]",
        "[sh, -c, 'export PYTHONPATH=/a:$PYTHONPATH; vllm serve m']",
        "[sh, -c, 'PYTHONPATH=\"${PYTHONPATH}:/a\" vllm serve m']",
        "[bash, -c, 'PYTHONPATH+=:/a; vllm serve m']",
        "[sh, -c, 'P=$PYTHONPATH; export PYTHONPATH=/a:$P; vllm serve m']",
        "[sh, -c, 'export PYTHONPATH=/a${PYTHONPATH:+:$PYTHONPATH}; vllm serve m']",
        "[sh, -c, 'unset HTTP_PROXY; vllm serve m']",
        "[bash, -c, 'unset -f $X; vllm serve m']",
        "[bash, -c, 'for v in HTTP_PROXY NO_PROXY; do unset $v; done; vllm serve m']"})
    EXPECT_EQ(refusal(std::string("{command: ") + command + "}"), "") << command;
  EXPECT_EQ(refusal("{image: 'nvcr.io/nvidia/vllm:1', args: [vllm, serve, m]}"), "")
      << "NVIDIA's entrypoint runs its args";
}

// A program that is not known may hide the container's files or variables from vLLM.
// covers F-309
TEST(Environment, UnknownProgramPreventsInjection) {
  for (const char* command :
       {"[sh, -c, 'exec chroot /root vllm serve m']",
        "[sh, -c, 'exec apptainer exec --cleanenv i.sif vllm serve m']",
        "[sh, -c, 'nohup bwrap --clearenv --bind / / vllm serve m']",
        "[timeout, -k, '5', '30', chroot, /root, vllm, serve, m]",
        "[tini, -g, bwrap, vllm, serve, m]", "[nice, -n, '5', proot, vllm, serve, m]",
        "[env, A=1, unshare, -r, vllm, serve, m]", "[numactl, -m, '0', firejail, vllm, serve, m]",
        "[sh, -c, 'exec $WRAPPER vllm serve m']", "[sh, -c, 'env -i $(cat /x) vllm serve m']",
        "[sh, -c, 'time chroot /root vllm serve m']",
        "[sh, -c, 'exec chroot /root \"$@\"', --, vllm, serve, m]"})
    EXPECT_NE(refusal(std::string("{image: 'vllm/vllm-openai:1', command: ") + command + "}"), "")
        << command;
}

// covers F-309
TEST(Environment, KnownProgramWithOptionsIsInjected) {
  for (const char* command :
       {"[timeout, -k, '5', '30', vllm, serve, m]", "[sh, -c, 'timeout $LIMIT vllm serve m']",
        "[taskset, -c, 0-7, vllm, serve, m]", "[nice, '-10', vllm, serve, m]",
        "[ionice, -c, '2', -n, '0', vllm, serve, m]", "[stdbuf, -oL, -e, L, vllm, serve, m]",
        "[chrt, -f, '10', vllm, serve, m]", "[uv, run, --no-sync, vllm, serve, m]",
        "[conda, run, -n, base, --no-capture-output, vllm, serve, m]",
        "[nsys, profile, -f, 'true', --trace, cuda, vllm, serve, m]",
        "[opentelemetry-instrument, --service_name, x, vllm, serve, m]",
        "[sh, -c, 'exec nice numactl $NUMA_OPTIONS vllm serve m']",
        "[env, A=1, nice, -n, '5', setsid, -w, vllm, serve, m]"})
    EXPECT_EQ(refusal(std::string("{command: ") + command + "}"), "") << command;
}

// covers F-312
TEST(EngineContainer, ImageMatchBesideForeignContainerIsNotInjected) {
  EXPECT_THAT(engines_of("[{name: engine, image: 'team/llm:1', command: [/scripts/start.sh]}, "
                         "{name: helper, image: 'team/vllm-help:1', args: [--poll, '5']}]"),
              testing::HasSubstr("another container may be the engine; name"));
  EXPECT_EQ(engines_of("[{name: side, image: 'nginx:1', command: [nginx]}, {name: engine, image: "
                       "'vllm/vllm-openai:1', args: [--model, m]}]"),
            "engine ");
  for (const char* image : {"team/vllm-adapter:1", "vllm-syncer", "mock-vllm", "llm/vllm-sim:2",
                            "vllm-client:1", "vllm-warmup"})
    EXPECT_EQ(
        engines_of(
            (std::string("[{name: helper, image: '") + image + "', args: [--poll, '5']}]").c_str())
            .find("engine"),
        engines_of("[{name: helper, image: 'nginx', args: [--poll, '5']}]").find("engine"))
        << image;
  EXPECT_EQ(engines_of("[{name: engine, image: 'x/vllm-simple:1', args: [--port, '1']}]"),
            "engine ");
}

// covers F-306
TEST(Environment, ExpandableSegmentsAreReported) {
  for (const char* container :
       {"{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; vllm serve "
        "m']}",
        "{command: [sh, -c, 'PYTORCH_CUDA_ALLOC_CONF=\"a:1,expandable_segments:True\" vllm serve "
        "m']}",
        "{command: [env, 'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True', vllm, serve, m]}",
        "{command: [env, 'PYTORCH_ALLOC_CONF=expandable_segments:True', vllm, serve, m]}",
        "{command: [sh, -c, 'export PYTORCH_ALLOC_CONF=expandable_segments:${ON:-True}; vllm serve "
        "m']}",
        "{command: [sh, -c, 'X=expandable; export PYTORCH_CUDA_ALLOC_CONF=${X}_segments:True; vllm "
        "serve m']}",
        "{command: [vllm, serve, m], env: [{name: PYTORCH_ALLOC_CONF, value: "
        "'expandable_segments:True'}]}",
        "{command: [vllm, serve, m], env: [{name: X, value: 'expandable_segments:True'}, {name: "
        "PYTORCH_CUDA_ALLOC_CONF, value: $(X)}]}",
        "{command: [vllm, serve, m], env: [{name: PYTORCH_CUDA_ALLOC_CONF, valueFrom: "
        "{configMapKeyRef: {name: c, key: k}}}]}",
        "{command: [vllm, serve, m], env: [{name: PYTORCH_CUDA_ALLOC_CONF, value: $(X)}], envFrom: "
        "[{configMapRef: {name: c}}]}",
        "{command: [vllm, serve, m], envFrom: [{prefix: PYTORCH_, configMapRef: {name: c}}]}",
        "{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=$X; vllm serve m'], envFrom: "
        "[{secretRef: {name: c}}]}",
        "{command: [sh, -c, 'A=$X; export PYTORCH_CUDA_ALLOC_CONF=$A; vllm serve m'], env: [{name: "
        "X, valueFrom: {secretKeyRef: {name: c, key: k}}}]}",
        "{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=$(cat /x); vllm serve m']}",
        "{command: [bash, -c, 'read PYTORCH_CUDA_ALLOC_CONF < /x; vllm serve m']}",
        "{command: [env, 'PYTORCH_CUDA_ALLOC_CONF=$(X)', vllm, serve, m], envFrom: [{secretRef: "
        "{name: c}}]}",
        "{command: [vllm, serve, m, --no-enable-sleep-mode], env: [{name: PYTORCH_CUDA_ALLOC_CONF, "
        "value: 'expandable_segments:True'}]}",
        "{command: [vllm, serve, m, --enable-sleep-mode, --no-enable-sleep-mode], env: [{name: "
        "PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}]}",
        "{command: [vllm, serve, m, --sleep-mode-backend, cumem], env: [{name: "
        "PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}]}",
        "{command: [vllm, serve, /models/sleep-mode], env: [{name: PYTORCH_CUDA_ALLOC_CONF, value: "
        "'expandable_segments:True'}]}"}) {
    const std::string why = refusal(container);
    EXPECT_NE(why.find("expandable_segments:True"), std::string::npos) << container << ": " << why;
    EXPECT_NE(why.find("; "), std::string::npos) << why;
  }
  for (const char* container :
       {"{command: [vllm, serve, m, --enable-sleep-mode], env: [{name: PYTORCH_CUDA_ALLOC_CONF, "
        "value: 'expandable_segments:True'}]}",
        "{command: [vllm, serve, m, --enable_cumem_allocator], env: [{name: "
        "PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}]}",
        "{command: [sh, -c, 'vllm serve m --enable-sleep-mode; exit'], env: [{name: "
        "PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}]}",
        "{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False; vllm serve "
        "m']}",
        "{command: [sh, -c, \"# expandable_segments:True is off\\nvllm serve m\"]}",
        "{command: [sh, -c, 'export PYTORCH_CUDA_ALLOC_CONF=$X; vllm serve m'], env: [{name: X, "
        "value: 'max_split_size_mb:64'}]}",
        "{command: [vllm, serve, m], envFrom: [{secretRef: {name: token}}]}"})
    EXPECT_EQ(refusal(container), "") << container;
}

}  // namespace
}  // namespace larder::test
