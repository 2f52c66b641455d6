"""Builds libggml-cpu.so from a copy of the vendor sources with the f16 GELU lookup tables disabled
(GGML_GELU_FP16 / GGML_GELU_QUICK_FP16), so that llama.cpp can be compared with HF at f32 noise level.
The vendor tree is not touched; the library drops in through LD_LIBRARY_PATH=tools/exact/lib."""
import json, subprocess, shlex, os, re, shutil, sys
from concurrent.futures import ThreadPoolExecutor
B=os.path.dirname(os.environ['LLAMA_CPP_BUILD']); V=os.environ['LLAMA_CPP']
W=os.path.join(os.path.dirname(os.path.abspath(__file__)),'exact'); old=V+'/ggml/src/ggml-cpu'
shutil.rmtree(W,ignore_errors=True); shutil.copytree(old,W+'/ggml-cpu')
for dp,_,fs in os.walk(W+'/ggml-cpu'):
    for f in fs:
        p=os.path.join(dp,f); s=open(p,encoding='utf-8',errors='surrogateescape').read(); n=re.sub(r'(?m)^#define GGML_GELU(_QUICK)?_FP16\b.*$','',s)
        if n!=s: print('table off:',f); open(p,'w',encoding='utf-8',errors='surrogateescape').write(n)
os.makedirs(W+'/obj',exist_ok=True); os.makedirs(W+'/lib',exist_ok=True)
cc=[e for e in json.load(open(B+'/compile_commands.json')) if '/ggml-cpu/' in e['file']]
objs=[]
def one(e):
    src=e['file'].replace(old,W+'/ggml-cpu')
    o=W+'/obj/'+e['file'][len(old)+1:].replace('/','_')+'.o'
    a=shlex.split(e['command']); i=a.index('-o'); a[i+1]=o; a[a.index('-c')+1]=src
    a=[x.replace('-I'+old,'-I'+W+'/ggml-cpu') for x in a]
    a+=['-I'+V+'/ggml/src/ggml-cpu/../..','-I'+V+'/ggml/src']
    r=subprocess.run(a,cwd=e['directory'],capture_output=True,text=True)
    if r.returncode: print(src,r.stderr[-2000:]); 
    return o,r.returncode
with ThreadPoolExecutor(2) as ex: res=list(ex.map(one,cc))
assert all(r==0 for _,r in res)
subprocess.check_call(['c++','-shared','-fPIC','-fopenmp','-Wl,-soname,libggml-cpu.so.0','-o',W+'/lib/libggml-cpu.so.0']+[o for o,_ in res]+['-L'+B+'/bin','-lggml-base','-Wl,-rpath,'+B+'/bin'])
print('ok')
